#include "profiler/analysis/steps.hpp"
#include "profiler/analysis/window.hpp"
#include "profiler/report/chrome_trace.hpp"
#include "profiler/report/difference_report.hpp"
#include "profiler/report/html_report.hpp"
#include "profiler/report/report.hpp"
#include "tests/fuzz/target.hpp"

// Checksums would keep nearly every mutation from the records behind them, so a second reading has them mended.
namespace {

using namespace oomb::profiler;

void put_word(std::string& bytes, std::size_t at, std::uint32_t word) {
    for (std::size_t i = 0; i < 4; ++i) {
        bytes[at + i] = static_cast<char>((word >> (8 * i)) & 0xFF);
    }
}

std::string with_right_checksums(std::string bytes) {
    for (std::size_t at = kFileHeader_bytes; at + kBlockHeader_bytes <= bytes.size();) {
        std::size_t size = 0;
        for (std::size_t i = 4; i-- > 0;) {
            size = (size << 8) | static_cast<unsigned char>(bytes[at + 4 + i]);
        }
        if (size > bytes.size() - at - kBlockHeader_bytes) {
            break;
        }
        const auto all = std::as_bytes(std::span(bytes));
        put_word(bytes, at + 12,
                 crc32(all.subspan(at + kBlockHeader_bytes, size), crc32(all.subspan(at, kBlockHeader_bytes - 4))));
        at += kBlockHeader_bytes + size;
    }
    return bytes;
}

void look_at(const std::uint8_t* data, std::size_t size) {
    const Profile profile = read_profile(oomb::fuzz::as_file(data, size, ".profile"));
    const Findings findings = find(profile, {});
    report_text(findings, {});
    report_json(findings);
    const oomb::timeline::Interval time = recorded_time(profile);
    html_report(findings, time, time.begin);
    chrome_trace(profile, time.begin, 3);
    difference_text(difference_of(profile, profile), 9);
    for (const RecordedStep& step : steps_of(profile)) {
        overlap_within(profile, step.span);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    oomb::fuzz::refuses_or_accepts([&] { look_at(data, size); });
    const std::string mended = with_right_checksums(oomb::fuzz::text_of(data, size));
    return oomb::fuzz::refuses_or_accepts(
        [&] { look_at(reinterpret_cast<const std::uint8_t*>(mended.data()), mended.size()); });
}
