#include "profiler/export/sqlite_export.hpp"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "profiler/analysis/sums.hpp"
#include "profiler/export/kernel_name.hpp"
#include "profiler/export/nsys_schema.hpp"
#include "profiler/export/sqlite_database.hpp"
#include "profiler/report/report.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kSchemaVersion = "3.28.1";
constexpr std::uint32_t kNone = 0xFFFFFFFF;  // CUPTI's stream or event of a wait that is for none
// Ours: what nsys has no table for. Layer and chunk are NULL in the optimizer's phase, which has none.
constexpr const char* kOperationTable = R"sql(
CREATE TABLE OOMB_OPERATIONS (correlationId INTEGER PRIMARY KEY, operation INTEGER, sequence INTEGER, phase TEXT,
    chunk INTEGER, layer INTEGER, kind TEXT, part INTEGER);
)sql";

// Readers of SQLite want UTF-8, and texts that end at a zero byte.
std::string valid_text(std::string_view text) {
    const std::string quoted =
        Json(text.substr(0, text.find('\0'))).dump(-1, ' ', false, Json::error_handler_t::replace);
    return Json::parse(quoted).get<std::string>();
}

// StringIds: each text once, whatever stood for it in the profile.
class Strings {
  public:
    using Entry = std::pair<const std::string, std::int64_t>;

    Strings(SqliteDatabase& database, const Profile& profile)
        : profile_(profile), insert_(database, "INSERT INTO StringIds VALUES (?, ?)") {}

    const Entry& of(std::string_view text) {
        const auto [entry, is_new] = ids_.try_emplace(valid_text(text), std::ssize(ids_) + 1);
        if (is_new) {
            insert_(entry->second, entry->first);
        }
        return *entry;
    }
    const Entry& of(StringId id) {
        const Entry*& entry = by_id_[id];
        entry = entry != nullptr ? entry : &of(profile_.text(id));
        return *entry;
    }

  private:
    const Profile& profile_;
    SqliteInsert insert_;
    std::unordered_map<std::string, std::int64_t> ids_;
    std::unordered_map<StringId, const Entry*> by_id_;
};

// Fills the tables, one function for each.
class Exporter {
  public:
    Exporter(SqliteDatabase& database, const Profile& profile)
        : database_(database),
          profile_(profile),
          strings_(database, profile),
          global_pid_(nsys_global_pid(profile.header.process)) {}

    void session();
    void devices();
    void kernels();
    void copies();
    void memsets();
    void memory();
    void markers();
    void synchronizations();
    void calls();
    void overheads();
    void operations();

  private:
    struct KernelNames {
        std::int64_t demangled = 0, base = 0;
        std::optional<std::int64_t> mangled;
    };
    KernelNames names_of(const Kernel& kernel);

    // nsys counts from the session's start. 0 is a time that is not known.
    std::optional<std::int64_t> time(std::int64_t ns) const {
        return ns == 0 ? std::nullopt : std::optional(ns - profile_.header.begin_ns);
    }
    std::int64_t global_tid(std::uint32_t thread) const { return nsys_global_tid(profile_.header.process, thread); }
    static std::optional<std::uint64_t> node(std::uint64_t graph_node) {
        return graph_node == 0 ? std::nullopt : std::optional(graph_node);
    }

    SqliteDatabase& database_;
    const Profile& profile_;
    Strings strings_;
    std::int64_t global_pid_;
    std::unordered_map<StringId, KernelNames> kernel_names_;
};

void Exporter::session() {
    const SessionHeader& header = profile_.header;
    SqliteInsert about(database_, "INSERT INTO META_DATA_EXPORT VALUES (?, ?)");
    about("EXPORT_SCHEMA_VERSION", kSchemaVersion);
    about("OOMB_RECORDED_BY", valid_text(header.program));
    about("OOMB_CUPTI_VERSION", std::to_string(header.cupti_version));
    about("OOMB_DRIVER_VERSION", std::to_string(header.driver_version));
    SqliteInsert(database_, "INSERT INTO PROCESSES VALUES (?, ?, ?)")(global_pid_, header.process,
                                                                      valid_text(header.command));
    SqliteInsert(database_,
                 "INSERT INTO TARGET_INFO_SESSION_START_TIME (utcEpochNs, utcTime) "
                 "VALUES (?1, datetime(?1 / 1000000000, 'unixepoch'))")(header.begin_ns);
    SqliteInsert diagnostic(database_, "INSERT INTO DIAGNOSTIC_EVENT (severity, text, globalPid) VALUES (?, ?, ?)");
    for (const std::string& line : warnings_of(profile_)) {
        diagnostic(NsysSeverity::kWarning, valid_text(line), global_pid_);
    }
}

void Exporter::devices() {
    SqliteInsert gpu(database_,
                     "INSERT INTO TARGET_INFO_GPU (vmId, id, name, totalMemory, smCount, cuDevice) "
                     "VALUES (0, ?1, ?2, ?3, ?4, ?1)");
    SqliteInsert device(database_,
                        "INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid, numMultiprocessors) "
                        "VALUES (?1, ?1, ?2, ?3)");
    for (const Device& d : profile_.devices) {
        gpu(d.device, valid_text(profile_.text(d.name)), d.memory_bytes, d.multiprocessors);
        device(d.device, profile_.header.process, d.multiprocessors);
    }
}

Exporter::KernelNames Exporter::names_of(const Kernel& kernel) {
    const auto [names, is_new] = kernel_names_.try_emplace(kernel.name);
    if (is_new) {
        const std::string_view mangled = profile_.text(kernel.name);
        const std::string plain = mangled.empty() ? "(name not in the file)" : demangled(mangled);
        names->second.demangled = strings_.of(plain).second;
        names->second.base = strings_.of(short_kernel_name(plain)).second;
        if (!mangled.empty()) {
            names->second.mangled = strings_.of(mangled).second;
        }
    }
    return names->second;
}

void Exporter::kernels() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
                        "correlationId, globalPid, demangledName, shortName, mangledName, registersPerThread, gridX, "
                        "gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, graphNodeId) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Kernel& k : profile_.kernels) {
        const KernelNames names = names_of(k);
        insert(time(k.begin_ns), time(k.end_ns), k.place.device, k.place.context, k.place.stream, k.correlation,
               global_pid_, names.demangled, names.base, names.mangled, k.registers, k.grid_x, k.grid_y, k.grid_z,
               k.block_x, k.block_y, k.block_z, k.static_shared_bytes, k.dynamic_shared_bytes, node(k.graph_node));
    }
}

void Exporter::copies() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, "
                        "correlationId, globalPid, bytes, copyKind, srcKind, dstKind, graphNodeId, copyCount) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Copy& c : profile_.copies) {
        insert(time(c.begin_ns), time(c.end_ns), c.place.device, c.place.context, c.place.stream, c.correlation,
               global_pid_, c.bytes, nsys_number(c.kind), nsys_number(c.from), nsys_number(c.to), node(c.graph_node),
               c.pieces);
    }
}

void Exporter::memsets() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, "
                        "correlationId, globalPid, bytes, graphNodeId) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Memset& m : profile_.memsets) {
        insert(time(m.begin_ns), time(m.end_ns), m.place.device, m.place.context, m.place.stream, m.correlation,
               global_pid_, m.bytes, node(m.graph_node));
    }
}

void Exporter::memory() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, "
                        "bytes, memKind, memoryOperationType, correlationId, streamId) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Memory& m : profile_.memory) {
        const int operation = m.allocates != 0 ? 0 : 1;
        insert(time(m.at_ns), global_pid_, m.place.device, m.place.context, m.address, m.bytes, nsys_number(m.kind),
               operation, m.correlation, m.place.stream);
    }
}

// CUPTI gives the two ends of a range, not how it was opened: one that ends on its thread is taken for pushed. Rows are
// written when ranges end; what did not end has no end.
void Exporter::markers() {
    SqliteInsert insert(database_,
                        "INSERT INTO NVTX_EVENTS (start, end, eventType, rangeId, text, globalTid, endGlobalTid, "
                        "textId, domainId) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    const auto event = [&](const Marker& marker, NsysEventType type, const Marker* end) {
        const auto& [text, text_id] = strings_.of(marker.name);
        insert(time(marker.at_ns), end != nullptr ? time(end->at_ns) : std::nullopt, type, marker.id, text,
               global_tid(marker.thread), end != nullptr ? std::optional(global_tid(end->thread)) : std::nullopt,
               text_id, marker.domain);
    };
    std::map<std::uint32_t, const Marker*> open;
    std::set<StringId> domains = {0};  // nsys gives the default domain no row
    for (const Marker& marker : profile_.markers) {
        if (domains.insert(marker.domain).second) {
            Marker domain = marker;
            domain.name = marker.domain;
            event(domain, NsysEventType::kDomainCreate, nullptr);
        }
        if (marker.kind == MarkerKind::kInstant) {
            event(marker, NsysEventType::kMark, nullptr);
        } else if (marker.kind == MarkerKind::kBegin) {
            if (const Marker* before = std::exchange(open[marker.id], &marker)) {
                event(*before, NsysEventType::kPushPopRange, nullptr);
            }
        } else if (const auto begin = open.extract(marker.id)) {
            const bool pushed = begin.mapped()->thread == marker.thread;
            event(*begin.mapped(), pushed ? NsysEventType::kPushPopRange : NsysEventType::kStartEndRange, &marker);
        }
    }
    for (const auto& [id, begin] : open) {
        event(*begin, NsysEventType::kPushPopRange, nullptr);
    }
}

void Exporter::synchronizations() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, contextId, streamId, "
                        "correlationId, globalPid, syncType, eventId) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    const auto known = [](std::uint32_t id) { return id == kNone ? std::nullopt : std::optional(id); };
    for (const Synchronization& s : profile_.synchronizations) {
        insert(time(s.begin_ns), time(s.end_ns), s.context, known(s.stream), s.correlation, global_pid_,
               nsys_number(s.kind), known(s.event));
    }
}

void Exporter::calls() {
    SqliteInsert insert(database_,
                        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, "
                        "nameId, returnValue) VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (const ApiCall& c : profile_.calls) {
        insert(time(c.begin_ns), time(c.end_ns), nsys_number(c.kind), global_tid(c.thread), c.correlation,
               strings_.of(profile_.text(c.name)).second, c.result);
    }
}

void Exporter::overheads() {
    SqliteInsert insert(database_,
                        "INSERT INTO PROFILER_OVERHEAD (start, end, globalTid, nameId, overheadType) "
                        "VALUES (?, ?, ?, ?, ?)");
    for (const Overhead& o : profile_.overheads) {
        insert(time(o.begin_ns), time(o.end_ns), global_tid(o.thread), strings_.of(name_of(o.kind)).second,
               nsys_number(o.kind));
    }
}

void Exporter::operations() {
    database_.execute(kOperationTable);
    SqliteInsert insert(database_, "INSERT INTO OOMB_OPERATIONS VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    SqliteInsert unknown(database_, "INSERT INTO OOMB_OPERATIONS (correlationId, operation) VALUES (?, ?)");
    for (const OperationMark& mark : profile_.marks) {
        const std::optional<schedule::OperationId> id = profile_.operation_of(mark.correlation);
        if (!id) {
            unknown(mark.correlation, mark.operation);
            continue;
        }
        const bool of_layer = id->phase != schedule::Phase::kOptimizer;
        insert(mark.correlation, mark.operation, id->sequence, name_of(id->phase),
               of_layer ? std::optional(id->chunk) : std::nullopt, of_layer ? std::optional(id->layer) : std::nullopt,
               name_of(id->kind), id->part);
    }
}

}  // namespace

void require_free(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
        fail<FileError>("{}: exists already; name another file, or remove it", path.string());
    }
    if (error) {
        fail<FileError>("{}: {}; name another file", path.string(), error.message());
    }
}

void export_sqlite(const Profile& profile, const std::filesystem::path& path) {
    require_free(path);
    SqliteDatabase database(path);
    database.execute(kNsysSchema);
    {
        Exporter exporter(database, profile);
        exporter.session();
        exporter.devices();
        exporter.kernels();
        exporter.copies();
        exporter.memsets();
        exporter.memory();
        exporter.markers();
        exporter.synchronizations();
        exporter.calls();
        exporter.overheads();
        exporter.operations();
    }
    database.finish();
}

}  // namespace oomb::profiler
