#include "runtime/schedule/operation.hpp"

namespace oomb::schedule {
namespace {

struct Field {
    int bits;
    std::uint64_t value;
    std::string_view name;
};

constexpr int kSequenceBits = 12, kPhaseBits = 2, kChunkBits = 16, kLayerBits = 9, kKindBits = 6, kPartBits = 19;
static_assert(kSequenceBits + kPhaseBits + kChunkBits + kLayerBits + kKindBits + kPartBits == 64);

std::uint64_t take_low(std::uint64_t& packed, int bits) {
    const std::uint64_t value = packed & ((std::uint64_t{1} << bits) - 1);
    packed >>= bits;
    return value;
}

}  // namespace

std::string_view name_of(Engine engine) {
    static constexpr std::string_view kNames[] = {"compute", "host_to_device", "device_to_host", "host", "file"};
    return kNames[static_cast<int>(engine)];
}

std::string_view name_of(Phase phase) {
    static constexpr std::string_view kNames[] = {"fill", "forward", "backward", "optimizer"};
    return kNames[static_cast<int>(phase)];
}

std::string_view name_of(Kind kind) {
    static constexpr std::string_view kNames[] = {
#define OOMB_KIND(name, text) text,
        OOMB_OPERATION_KINDS(OOMB_KIND)
#undef OOMB_KIND
    };
    return kNames[static_cast<int>(kind)];
}

std::uint64_t pack(const OperationId& id) {
    const Field fields[] = {{kSequenceBits, id.sequence, "sequence"},
                            {kPhaseBits, static_cast<std::uint64_t>(id.phase), "phase"},
                            {kChunkBits, id.chunk, "chunk"},
                            {kLayerBits, id.layer, "layer"},
                            {kKindBits, static_cast<std::uint64_t>(id.kind), "kind"},
                            {kPartBits, id.part, "part"}};
    std::uint64_t packed = 0;
    for (const Field& field : fields) {
        require(field.value >> field.bits == 0, "operation id: {} {} needs more than {} bits", field.name, field.value,
                field.bits);
        packed = packed << field.bits | field.value;
    }
    return packed;
}

OperationId unpack(std::uint64_t packed) {
    OperationId id;
    id.part = static_cast<std::uint32_t>(take_low(packed, kPartBits));
    id.kind = static_cast<Kind>(take_low(packed, kKindBits));
    id.layer = static_cast<std::uint16_t>(take_low(packed, kLayerBits));
    id.chunk = static_cast<std::uint16_t>(take_low(packed, kChunkBits));
    id.phase = static_cast<Phase>(take_low(packed, kPhaseBits));
    id.sequence = static_cast<std::uint16_t>(take_low(packed, kSequenceBits));
    return id;
}

std::string to_text(const OperationId& id) {
    return fmt::format("sequence {}, {}, chunk {}, layer {}, {} {}", id.sequence, name_of(id.phase), id.chunk, id.layer,
                       name_of(id.kind), id.part);
}

}  // namespace oomb::schedule
