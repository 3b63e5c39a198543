#include "profiler/export/sqlite_export.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <map>
#include <utility>

#include "profiler/analysis/sums.hpp"
#include "runtime/core/error.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind, schedule::OperationId, schedule::Phase;
using Row = std::vector<std::string>;  // "NULL" stands for NULL
using Rows = std::vector<Row>;

// A profile that was exported, open for queries.
class Exported {
  public:
    explicit Exported(const Profile& profile) {
        export_sqlite(profile, path_.get());
        REQUIRE(sqlite3_open_v2(path_.get().c_str(), &handle_, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
    }
    Exported(const Exported&) = delete;
    Exported& operator=(const Exported&) = delete;
    ~Exported() { sqlite3_close(handle_); }

    Rows query(const std::string& sql) const {
        sqlite3_stmt* statement = nullptr;
        REQUIRE_MESSAGE(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK,
                        sqlite3_errmsg(handle_));
        Rows rows;
        while (sqlite3_step(statement) == SQLITE_ROW) {
            Row& row = rows.emplace_back();
            for (int column = 0; column < sqlite3_column_count(statement); ++column) {
                const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
                row.emplace_back(text == nullptr ? "NULL" : text);
            }
        }
        sqlite3_finalize(statement);
        return rows;
    }
    std::string value(const std::string& sql) const { return query(sql).at(0).at(0); }

  private:
    TemporaryPath path_;
    sqlite3* handle_ = nullptr;
};

OperationId operation(Kind kind, Phase phase, int chunk, int layer) {
    OperationId id;
    id.kind = kind;
    id.phase = phase;
    id.chunk = static_cast<std::uint16_t>(chunk);
    id.layer = static_cast<std::uint16_t>(layer);
    return id;
}

// `count` kernels of three names (two of which differ in their template's argument alone) and copies of every kind,
// every fifth call outside of operations.
Profile random_profile(int count) {
    Random random(7);
    std::vector<Record> records = {StringRecord{1, "_Z3addIfEvPT_"}, StringRecord{2, "_Z3addIdEvPT_"},
                                   StringRecord{3, "plain \"name\"; DROP TABLE StringIds; --'"}};
    for (int i = 0; i < count; ++i) {
        const auto correlation = static_cast<std::uint32_t>(i + 1);
        const std::int64_t begin = 2'000 + random_below(random, 1'000'000), length = random_below(random, 5'000);
        if (random_below(random, 2) == 0) {
            records.push_back(Kernel{.begin_ns = begin,
                                     .end_ns = begin + length,
                                     .place = {0, 1, 7},
                                     .correlation = correlation,
                                     .name = static_cast<StringId>(1 + random_below(random, 3))});
        } else {
            records.push_back(Copy{.begin_ns = begin,
                                   .end_ns = begin + length,
                                   .place = {0, 1, 8},
                                   .correlation = correlation,
                                   .kind = static_cast<CopyKind>(random_below(random, kCopyKinds)),
                                   .bytes = random_below(random, 1 << 20)});
        }
        if (i % 5 != 0) {
            const bool backward = random_below(random, 2) == 0;
            records.push_back(OperationMark{
                correlation,
                pack(operation(backward ? Kind::kAttentionBackward : Kind::kAttention,
                               backward ? Phase::kBackward : Phase::kForward, static_cast<int>(random_below(random, 4)),
                               static_cast<int>(random_below(random, 3))))});
        }
    }
    return profile_of(records);
}

std::string text_of(std::int64_t number) {
    return std::to_string(number);
}

}  // namespace

TEST_CASE("kernels by time, as queries for nsys ask it") {
    const Profile profile = random_profile(2'000);
    const Exported database(profile);
    Rows expected;
    for (const NameSum& sum : sums_by_kernel(profile)) {
        expected.push_back({sum.name, text_of(sum.count), text_of(sum.total_ns)});
    }
    REQUIRE(expected.size() == 3);
    CHECK(database.query("SELECT s.value, COUNT(*), SUM(k.end - k.start) AS total FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                         "JOIN StringIds s ON s.id = k.demangledName GROUP BY k.demangledName ORDER BY total DESC") ==
          expected);
    // Two kernels have one short name, which is one string.
    CHECK(database.value("SELECT COUNT(DISTINCT shortName) FROM CUPTI_ACTIVITY_KIND_KERNEL") == "2");
    CHECK(
        database.query("SELECT DISTINCT m.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds m ON m.id = "
                       "k.mangledName JOIN StringIds s ON s.id = k.shortName ORDER BY 1 LIMIT 2") ==
        Rows{{"_Z3addIdEvPT_", "add"}, {"_Z3addIfEvPT_", "add"}});
}

TEST_CASE("copies by kind") {
    const Profile profile = random_profile(2'000);
    const std::map<CopyKind, std::string> labels = {{CopyKind::kUnknown, "Unknown"},
                                                    {CopyKind::kHostToDevice, "Host-to-Device"},
                                                    {CopyKind::kDeviceToHost, "Device-to-Host"},
                                                    {CopyKind::kDeviceToDevice, "Device-to-Device"},
                                                    {CopyKind::kHostToHost, "Host-to-Host"},
                                                    {CopyKind::kPeer, "Peer-to-Peer"}};
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> sums;  // bytes, time
    for (const Copy& copy : profile.copies) {
        sums[labels.at(copy.kind)].first += copy.bytes;
        sums[labels.at(copy.kind)].second += copy.end_ns - copy.begin_ns;
    }
    Rows expected;
    for (const auto& [label, sum] : sums) {
        expected.push_back({label, text_of(sum.first), text_of(sum.second)});
    }
    REQUIRE(expected.size() == kCopyKinds);
    CHECK(Exported(profile).query(
              "SELECT e.label, SUM(m.bytes), SUM(m.end - m.start) FROM CUPTI_ACTIVITY_KIND_MEMCPY m "
              "JOIN ENUM_CUDA_MEMCPY_OPER e ON e.id = m.copyKind GROUP BY e.label ORDER BY 1") == expected);
}

TEST_CASE("work by operation, through the call's correlation") {
    const Profile profile = random_profile(2'000);
    const auto sums = sums_by_operation(profile);
    REQUIRE(sums);
    const Exported database(profile);
    const std::string from =
        " FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN OOMB_OPERATIONS o ON o.correlationId = k.correlationId ";
    const OperationSum& backward = sums->by_kind.at(Kind::kAttentionBackward);
    CHECK(database.query("SELECT COUNT(*), SUM(k.end - k.start)" + from + "WHERE o.kind = 'attention_backward'") ==
          Rows{{text_of(backward.kernels), text_of(backward.kernel_ns)}});
    for (const auto& [layer, sum] : sums->by_layer) {
        CHECK(database.value("SELECT SUM(k.end - k.start)" + from + "WHERE o.layer = " + text_of(layer)) ==
              text_of(sum.kernel_ns));
    }
    CHECK(database.value("SELECT SUM(k.end - k.start)" + from + "WHERE o.phase = 'forward'") ==
          text_of(sums->by_phase.at(Phase::kForward).kernel_ns));
    CHECK(database.value("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId NOT IN "
                         "(SELECT correlationId FROM OOMB_OPERATIONS)") ==
          text_of(std::count_if(profile.kernels.begin(), profile.kernels.end(),
                                [&](const Kernel& k) { return !profile.operation_of(k.correlation); })));
}

TEST_CASE("an operation's coordinates; none where kinds are numbered otherwise, no layer in the optimizer's phase") {
    const std::uint64_t attention = pack(operation(Kind::kAttention, Phase::kForward, 1, 2));
    const std::vector<Record> records = {OperationMark{11, attention},
                                         OperationMark{12, pack(operation(Kind::kOptimizer, Phase::kOptimizer, 0, 0))}};
    CHECK(Exported(profile_of(records)).query("SELECT * FROM OOMB_OPERATIONS ORDER BY correlationId") ==
          Rows{{"11", text_of(static_cast<std::int64_t>(attention)), "0", "forward", "1", "2", "attention", "0"},
               {"12", text_of(static_cast<std::int64_t>(std::get<OperationMark>(records[1]).operation)), "0",
                "optimizer", "NULL", "NULL", "optimizer", "0"}});
    ProfileBuilder builder;
    builder.add(records[0]);
    SessionHeader header = test_header();
    std::swap(header.operation_kinds.front(), header.operation_kinds.back());
    const Exported other(builder.finish(header, {.whole = true}));
    CHECK(other.query("SELECT phase, kind, layer FROM OOMB_OPERATIONS") == Rows{{"NULL", "NULL", "NULL"}});
    CHECK(other.value(
              "SELECT COUNT(*) FROM DIAGNOSTIC_EVENT WHERE severity = 2 AND text LIKE '%numbered otherwise%'") == "1");
}

TEST_CASE("every field of every record, times from the session's start, and NULL for what is not recorded") {
    const Exported database(profile_of(
        {StringRecord{1, "H200"}, Device{.device = 1, .name = 1, .memory_bytes = 100, .multiprocessors = 132},
         Kernel{1'500, 1'700, {1, 2, 3}, 4, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
         Copy{1'500, 1'600, {1, 2, 3}, 5, CopyKind::kPeer, MemoryKind::kUnknown, MemoryKind::kPinned, 64, 2, 0},
         Memset{1'500, 1'600, {1, 2, 3}, 6, 32, 0},
         Memory{900, 1, MemoryKind::kDevice, ~std::uint64_t{0}, 4'096, {1, 2, 3}, 7},
         Memory{901, 0, MemoryKind::kDevice, 16, 4'096, {1, 2, 3}, 8},
         Synchronization{1'100, 0, SynchronizationKind::kContext, 2, 0xFFFFFFFF, 0xFFFFFFFF, 9},
         Synchronization{1'100, 1'200, SynchronizationKind::kEvent, 2, 3, 12, 10},
         Overhead{1'010, 1'020, OverheadKind::kFunctionLoading, 77}}));
    CHECK(database.query("SELECT utcEpochNs, utcTime, localTime FROM TARGET_INFO_SESSION_START_TIME") ==
          Rows{{"1000", "1970-01-01 00:00:00", "NULL"}});
    CHECK(database.query("SELECT id, name, totalMemory, smCount, memoryBandwidth FROM TARGET_INFO_GPU") ==
          Rows{{"1", "H200", "100", "132", "NULL"}});
    CHECK(database.query("SELECT start, end, deviceId, contextId, streamId, correlationId, registersPerThread, gridX, "
                         "gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, graphNodeId, "
                         "launchType, gridId FROM CUPTI_ACTIVITY_KIND_KERNEL") ==
          Rows{{"500", "700", "1", "2", "3", "4", "11", "5", "6", "7", "8", "9", "10", "12", "13", "14", "NULL",
                "NULL"}});
    CHECK(database.query("SELECT start, end, deviceId, contextId, streamId, correlationId, copyKind, srcKind, dstKind, "
                         "bytes, copyCount, graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMCPY") ==
          Rows{{"500", "600", "1", "2", "3", "5", "10", "7", "1", "64", "2", "NULL"}});
    CHECK(database.query("SELECT start, end, streamId, correlationId, bytes, value FROM CUPTI_ACTIVITY_KIND_MEMSET") ==
          Rows{{"500", "600", "3", "6", "32", "NULL"}});
    CHECK(
        database.query("SELECT m.start, o.label, k.label, address, bytes, deviceId, contextId, streamId, correlationId "
                       "FROM CUDA_GPU_MEMORY_USAGE_EVENTS m JOIN ENUM_CUDA_DEV_MEM_EVENT_OPER o ON o.id = "
                       "memoryOperationType JOIN ENUM_CUDA_MEM_KIND k ON k.id = memKind") ==
        Rows{{"-100", "Allocation", "Device", "-1", "4096", "1", "2", "3", "7"},
             {"-99", "Deallocation", "Device", "16", "4096", "1", "2", "3", "8"}});
    CHECK(database.query("SELECT start, end, contextId, streamId, eventId, correlationId, label, deviceId FROM "
                         "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION JOIN ENUM_CUPTI_SYNC_TYPE e ON e.id = syncType") ==
          Rows{{"100", "NULL", "2", "NULL", "NULL", "9", "Context sync", "NULL"},
               {"100", "200", "2", "3", "12", "10", "Event sync", "NULL"}});
    CHECK(database.query("SELECT start, end, globalTid % 0x1000000, s.value, e.name FROM CUPTI_ACTIVITY_KIND_OVERHEAD "
                         "JOIN StringIds s ON s.id = nameId JOIN ENUM_CUPTI_OVERHEAD_TYPE e ON e.id = overheadType") ==
          Rows{{"10", "20", "77", std::string(name_of(OverheadKind::kFunctionLoading)),
                "OVERHEAD_LAZY_FUNCTION_LOADING"}});
    // Process 7 (test_header), as nsys packs it.
    CHECK(database.query("SELECT globalPid, pid, name FROM PROCESSES") == Rows{{"117440512", "7", "a program"}});
    CHECK(database.value("SELECT globalPid / 0x1000000 % 0x1000000 FROM CUPTI_ACTIVITY_KIND_MEMCPY") == "7");
    CHECK(database.value("SELECT globalTid / 0x1000000 % 0x1000000 FROM PROFILER_OVERHEAD") == "7");
}

TEST_CASE("calls, and through them the kernels that were launched within an NVTX range") {
    const auto marker = [](std::int64_t at, MarkerKind kind, std::uint32_t id) {
        return Marker{.at_ns = at, .kind = kind, .id = id, .thread = 70, .name = 1};
    };
    const auto launch = [](std::int64_t at, std::uint32_t thread, std::uint32_t correlation) {
        return ApiCall{at, at + 10, ApiKind::kRuntime, thread, correlation, 2, 0};
    };
    const Exported database(
        profile_of({StringRecord{1, "step"}, StringRecord{2, "cudaLaunchKernel_v7000"},
                    marker(1'100, MarkerKind::kBegin, 1), marker(1'200, MarkerKind::kEnd, 1), launch(1'050, 70, 1),
                    launch(1'110, 70, 2), launch(1'120, 71, 3), ApiCall{1'112, 1'118, ApiKind::kDriver, 70, 2, 2, 700},
                    launch(1'190, 70, 4), Kernel{.begin_ns = 1'300, .end_ns = 1'400, .correlation = 1},
                    Kernel{.begin_ns = 1'400, .end_ns = 1'440, .correlation = 2},
                    Kernel{.begin_ns = 1'440, .end_ns = 1'450, .correlation = 3},
                    Kernel{.begin_ns = 1'450, .end_ns = 1'452, .correlation = 4}}));
    CHECK(database.query("SELECT c.start, c.end, e.label, c.globalTid % 0x1000000, correlationId, s.value, returnValue "
                         "FROM CUPTI_ACTIVITY_KIND_RUNTIME c JOIN StringIds s ON s.id = nameId JOIN "
                         "ENUM_NSYS_EVENT_CLASS e ON e.id = eventClass WHERE returnValue != 0") ==
          Rows{{"112", "118", "CUDA driver", "70", "2", "cudaLaunchKernel_v7000", "700"}});
    CHECK(database.query("SELECT COUNT(*), SUM(k.end - k.start) FROM NVTX_EVENTS n JOIN CUPTI_ACTIVITY_KIND_RUNTIME c "
                         "ON c.globalTid = n.globalTid AND c.start >= n.start AND c.end <= n.end AND c.eventClass = 0 "
                         "JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = c.correlationId "
                         "WHERE n.text = 'step'") == Rows{{"2", "42"}});
}

TEST_CASE("every number of an enumeration has its label") {
    std::vector<Record> records;
    for (int i = 0; i < 10; ++i) {
        records.push_back(Copy{.begin_ns = 1,
                               .end_ns = 2,
                               .kind = static_cast<CopyKind>(i % kCopyKinds),
                               .from = static_cast<MemoryKind>(i % kMemoryKinds)});
        records.push_back(Synchronization{.kind = static_cast<SynchronizationKind>(i % kValues<SynchronizationKind>)});
        records.push_back(Overhead{.kind = static_cast<OverheadKind>(i % kValues<OverheadKind>)});
    }
    const Exported database(profile_of(records));
    const auto labels = [&](const std::string& column, const std::string& table, const std::string& enumeration) {
        return database.value("SELECT COUNT(DISTINCT e.label) FROM " + table + " JOIN " + enumeration +
                              " e ON e.id = " + column);
    };
    CHECK(labels("copyKind", "CUPTI_ACTIVITY_KIND_MEMCPY", "ENUM_CUDA_MEMCPY_OPER") == "6");
    CHECK(labels("srcKind", "CUPTI_ACTIVITY_KIND_MEMCPY", "ENUM_CUDA_MEM_KIND") == "8");
    CHECK(labels("syncType", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "ENUM_CUPTI_SYNC_TYPE") == "5");
    CHECK(labels("overheadType", "PROFILER_OVERHEAD", "ENUM_CUPTI_OVERHEAD_TYPE") == "10");
}

TEST_CASE("NVTX: pushed and started ranges, marks, ranges that did not end, domains") {
    const auto marker = [](std::int64_t at, MarkerKind kind, std::uint32_t id, std::uint32_t thread, StringId name) {
        return Marker{
            .at_ns = at, .kind = kind, .id = id, .thread = thread, .name = name, .domain = name == 3 ? 4u : 0u};
    };
    const Exported database(profile_of(
        {StringRecord{1, "outer"}, StringRecord{2, "inner"}, StringRecord{3, "of oomb"}, StringRecord{4, "oomb"},
         marker(1'100, MarkerKind::kBegin, 1, 70, 1), marker(1'200, MarkerKind::kBegin, 2, 70, 2),
         marker(1'250, MarkerKind::kInstant, 9, 71, 3), marker(1'300, MarkerKind::kEnd, 2, 70, 0),
         marker(1'400, MarkerKind::kBegin, 3, 70, 3), marker(1'500, MarkerKind::kEnd, 1, 70, 0),
         marker(1'600, MarkerKind::kEnd, 3, 71, 0), marker(1'700, MarkerKind::kBegin, 4, 70, 2),
         marker(1'800, MarkerKind::kBegin, 4, 70, 1), marker(1'900, MarkerKind::kEnd, 55, 70, 0)}));
    CHECK(database.query("SELECT n.start, n.end, e.name, n.text, s.value, globalTid % 0x1000000, endGlobalTid % "
                         "0x1000000, domainId, rangeId FROM NVTX_EVENTS n JOIN ENUM_NSYS_EVENT_TYPE e ON e.id = "
                         "n.eventType JOIN StringIds s ON s.id = n.textId ORDER BY n.start, e.name DESC") ==
          Rows{{"100", "500", "NvtxPushPopRange", "outer", "outer", "70", "70", "0", "1"},
               {"200", "300", "NvtxPushPopRange", "inner", "inner", "70", "70", "0", "2"},
               {"250", "NULL", "NvtxMark", "of oomb", "of oomb", "71", "NULL", "4", "9"},
               {"250", "NULL", "NvtxDomainCreate", "oomb", "oomb", "71", "NULL", "4", "9"},
               {"400", "600", "NvtxStartEndRange", "of oomb", "of oomb", "70", "71", "4", "3"},
               {"700", "NULL", "NvtxPushPopRange", "inner", "inner", "70", "NULL", "0", "4"},
               {"800", "NULL", "NvtxPushPopRange", "outer", "outer", "70", "NULL", "0", "4"}});
}

TEST_CASE("texts of foreign programs: quotes, wrong UTF-8, zero bytes, none at all") {
    const Exported database(profile_of(
        {StringRecord{1, "a'b\"c"}, StringRecord{2, "\xFFx\xC3"}, StringRecord{3, std::string("cut\0off", 7)},
         StringRecord{4, "\xC3\xA4"}, Kernel{.begin_ns = 1, .end_ns = 2, .name = 1},
         Kernel{.begin_ns = 2, .end_ns = 3, .name = 2}, Kernel{.begin_ns = 3, .end_ns = 4, .name = 3},
         Kernel{.begin_ns = 4, .end_ns = 5, .name = 4}, Kernel{.begin_ns = 5, .end_ns = 6, .name = 99}}));
    CHECK(database.query("SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName "
                         "ORDER BY k.start") ==
          Rows{{"a'b\"c"}, {"\xEF\xBF\xBDx\xEF\xBF\xBD"}, {"cut"}, {"\xC3\xA4"}, {"(name not in the file)"}});
    CHECK(database.value("SELECT mangledName FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start DESC") == "NULL");
}

TEST_CASE("what the recording lacks stands in DIAGNOSTIC_EVENT") {
    CHECK(Exported(profile_of({Losses{3, 0}}))
              .value("SELECT COUNT(*) FROM DIAGNOSTIC_EVENT d JOIN "
                     "ENUM_DIAGNOSTIC_SEVERITY_LEVEL e ON e.id = d.severity WHERE e.name "
                     "= 'Warning' AND text LIKE '%3 records were dropped%'") == "1");
}

TEST_CASE("random records of every kind: as many rows as records") {
    Random random(8);
    for (int round = 0; round < 20; ++round) {
        std::vector<Record> records;
        for (int i = 0; i < 60; ++i) {
            records.push_back(random_record(random));
        }
        const Profile profile = profile_of(records);
        const Exported database(profile);
        const auto rows = [&](const std::string& table) { return database.value("SELECT COUNT(*) FROM " + table); };
        CHECK(rows("CUPTI_ACTIVITY_KIND_KERNEL") == text_of(std::ssize(profile.kernels)));
        CHECK(rows("CUPTI_ACTIVITY_KIND_MEMCPY") == text_of(std::ssize(profile.copies)));
        CHECK(rows("CUPTI_ACTIVITY_KIND_MEMSET") == text_of(std::ssize(profile.memsets)));
        CHECK(rows("CUDA_GPU_MEMORY_USAGE_EVENTS") == text_of(std::ssize(profile.memory)));
        CHECK(rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION") == text_of(std::ssize(profile.synchronizations)));
        CHECK(rows("CUPTI_ACTIVITY_KIND_RUNTIME") == text_of(std::ssize(profile.calls)));
        CHECK(rows("PROFILER_OVERHEAD") == text_of(std::ssize(profile.overheads)));
        CHECK(rows("OOMB_OPERATIONS") == text_of(std::ssize(profile.marks)));
        CHECK(database.value("PRAGMA integrity_check") == "ok");
    }
}

TEST_CASE("an existing file is refused and stays as it is") {
    const TemporaryPath path;
    path.write("mine");
    CHECK_THROWS_WITH_AS(export_sqlite(random_profile(10), path.get()), doctest::Contains("exists already"), FileError);
    CHECK(path.bytes() == "mine");
}

TEST_CASE("a folder that is not there is named, and no folder is made") {
    const std::filesystem::path path = "/nowhere/x.sqlite";
    CHECK_THROWS_WITH_AS(
        export_sqlite(random_profile(10), path),
        doctest::Contains("/nowhere/x.sqlite: cannot be written: unable to open database file (No such"), FileError);
}

TEST_CASE("a full disk is said, and nothing half-written is left") {
    const TemporaryPath folder;
    std::filesystem::create_directory(folder.get());
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // writes past the limit fail instead
    const rlimit little{1 << 16, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
    const Profile profile = random_profile(5'000);
    CHECK_THROWS_WITH_AS(export_sqlite(profile, folder.get() / "x.sqlite"), doctest::Contains("cannot be written: "),
                         FileError);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(std::filesystem::is_empty(folder.get()));
}

}  // namespace oomb::profiler
