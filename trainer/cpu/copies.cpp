// Copies of the CPU backend: what the copy engines do on a GPU.

#include <algorithm>
#include <cstring>

#include "trainer/cpu/cpu_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::Kind;
using enum schedule::RegionName;

// The slot holds the chunk's tokens, then its targets at the length of the longest chunk.
template <class T>
void CpuBackend<T>::load_tokens(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = issued.operation.first_row;
    const std::int64_t context = plan_.run.context_tokens;
    const std::int64_t chunk_rows = std::min(plan_.run.chunk_tokens, context);
    const auto* host = memory_.template read<std::int32_t>(issued, kHostTokens, context + first + rows);
    auto* chunk = memory_.template write<std::int32_t>(issued, kTokens, chunk_rows + rows);
    std::copy_n(host + first, rows, chunk);
    std::copy_n(host + context + first, rows, chunk + chunk_rows);
}

template <class T>
void CpuBackend<T>::copy_pages(const Issued& issued) {
    for (const paging::Grant& grant : issued.grants) {
        for (std::size_t plane = 0; plane < 2; ++plane) {
            const auto at = [&](Tier tier, std::int32_t frame, Access access) {
                return memory_.frame(issued, tier, grant.page_class, plane, frame, access);
            };
            for (const paging::PageCopy& copy : grant.to_hbm) {
                std::memcpy(at(Tier::kHbm, copy.hbm_frame, Access::kWrite),
                            at(Tier::kHost, copy.host_frame, Access::kRead),
                            memory_.plane_bytes(Tier::kHbm, grant.page_class, plane));
            }
            for (const paging::PageCopy& copy : grant.to_host) {
                std::memcpy(at(Tier::kHost, copy.host_frame, Access::kWrite),
                            at(Tier::kHbm, copy.hbm_frame, Access::kRead),
                            memory_.plane_bytes(Tier::kHbm, grant.page_class, plane));
            }
        }
    }
}

// Between a layer's slots and its kept page: plane i is the operation's region i.
template <class T>
void CpuBackend<T>::copy_activation(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    const bool keeps = issued.operation.id.kind == Kind::kKeepActivation;
    const paging::Grant& grant = issued.grants[0];
    const auto row_bytes = [&](schedule::RegionName region) -> std::int64_t {
        return region == kLayerInput        ? model_.hidden * sizeof(T)
               : region == kAttentionOutput ? model_.query_width() * sizeof(T)
                                            : model_.query_heads * sizeof(A);
    };
    for (std::size_t plane = 0; plane < issued.operation.regions.size(); ++plane) {
        const schedule::RegionName region = issued.operation.regions[plane].region;
        const std::int64_t bytes = rows * row_bytes(region);
        std::byte* kept = memory_.frame(issued, grant.tier, PageClass::kActivation, plane, grant.frames[0],
                                        keeps ? Access::kWrite : Access::kRead);
        if (keeps) {
            std::copy_n(memory_.template read<std::byte>(issued, region, bytes), bytes, kept);
        } else {
            std::copy_n(kept, bytes, memory_.template write<std::byte>(issued, region, bytes));
        }
    }
}

// A shard's states between their home on the host and a slot of the ring.
template <class T>
void CpuBackend<T>::copy_state(const Issued& issued) {
    const bool fetches = issued.operation.id.kind == Kind::kFetchState;
    const std::int64_t bytes = shards_.slot_bytes();
    const auto [from, to] = fetches ? std::pair(kHostStates, kOptimizerShard) : std::pair(kOptimizerShard, kHostStates);
    std::copy_n(memory_.template read<std::byte>(issued, from, bytes), bytes,
                memory_.template write<std::byte>(issued, to, bytes));
}

template <class T>
void CpuBackend<T>::store_losses(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = issued.operation.first_row;
    std::copy_n(memory_.template read<A>(issued, kTokenLosses, rows), rows,
                memory_.template write<A>(issued, kHostLosses, first + rows) + first);
}

#define OOMB_COPIES(T)                                           \
    template void CpuBackend<T>::load_tokens(const Issued&);     \
    template void CpuBackend<T>::copy_pages(const Issued&);      \
    template void CpuBackend<T>::copy_activation(const Issued&); \
    template void CpuBackend<T>::copy_state(const Issued&);      \
    template void CpuBackend<T>::store_losses(const Issued&);
OOMB_COPIES(BFloat16)
OOMB_COPIES(float)
OOMB_COPIES(double)

}  // namespace oomb::trainer
