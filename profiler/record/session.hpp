#pragma once
// A recording of this process: from its construction to `finish`, or of a window within. CUPTI allows one at a time.
//
// When a window ends, kinds of records are switched off, so that no launch after it is recorded. Work that was launched
// before goes on; the device is not synchronised for it. The recorder asks CUPTI for records until none is open, for
// kMostDrain at most, and then closes the file while the program runs on. What had not ended by then has no time.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "profiler/file/recording_request.hpp"

namespace oomb::profiler {

struct SessionOptions {
    std::filesystem::path out;  // must not exist
    std::string program;        // who records: "oomb-train 0.1.0 (commit)"
    std::string command;        // what is recorded
    RecordingRequest request = {};
    std::chrono::milliseconds period{1000};  // what is complete is written this often
};

class Session {
  public:
    // Throws FileError, UnsupportedError (the driver is older, another profiler is at work, no permission). Kinds of
    // records that the system refuses one by one become notes in the file.
    explicit Session(const SessionOptions& options);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();  // finishes, and says on stderr what failed

    // Writes what is there and closes the file; work that still runs on the device then has no time. After it CUPTI
    // may still call back: nothing happens. Throws FileError, also for what failed while the run went on.
    void finish();

    static constexpr std::chrono::seconds kMostDrain{5};

  private:
    class Recorder;
    std::unique_ptr<Recorder> recorder_;
};

}  // namespace oomb::profiler
