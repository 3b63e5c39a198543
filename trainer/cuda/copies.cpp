// Copies of the CUDA backend: lists for the transfer engine, neighbours made one.

#include "runtime/device/check.hpp"
#include "trainer/cuda/cuda_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::Engine;
using schedule::Kind;
using enum schedule::RegionName;

namespace {

// Appends a copy, or lengthens the last one where both sides go on from it.
void append(std::vector<device::Copy>& copies, std::int64_t host, std::int64_t device, std::int64_t bytes) {
    if (!copies.empty()) {
        device::Copy& last = copies.back();
        if (last.host_offset + last.bytes == host && last.device_offset + last.bytes == device) {
            last.bytes += bytes;
            return;
        }
    }
    copies.push_back({host, device, bytes});
}

device::Direction direction_of(const issue::IssuedOperation& issued) {
    return issued.operation.engine == Engine::kHostToDevice ? device::Direction::kHostToDevice
                                                            : device::Direction::kDeviceToHost;
}

}  // namespace

// The slot holds the chunk's tokens, then its targets at the length of the longest chunk.
template <class T>
void CudaBackend<T>::load_tokens(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = issued.operation.first_row;
    const std::int64_t context = plan_.run.context_tokens;
    const std::int64_t chunk_rows = std::min(plan_.run.chunk_tokens, context);
    const auto* host = memory_->read<std::int32_t>(issued, kHostTokens, context + first + rows);
    const auto* chunk = memory_->write<std::int32_t>(issued, kTokens, chunk_rows + rows);
    copies_.clear();
    const auto add = [&](const std::int32_t* from, const std::int32_t* to) {
        append(copies_, reinterpret_cast<const std::byte*>(from) - memory_->arena(Tier::kHost),
               reinterpret_cast<const std::byte*>(to) - memory_->arena(Tier::kHbm),
               rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
    };
    add(host + first, chunk);
    add(host + context + first, chunk + chunk_rows);
    streams_->copy(device::Direction::kHostToDevice, copies_);
}

template <class T>
void CudaBackend<T>::copy_pages(const Issued& issued) {
    copies_.clear();
    for (const paging::Grant& grant : issued.grants) {
        const bool up = !grant.to_hbm.empty();
        for (std::size_t plane = 0; plane < 2; ++plane) {
            const auto offset = [&](Tier tier, std::int32_t frame, bool written) {
                return memory_->frame(issued, tier, grant.page_class, plane, frame,
                                      written ? Access::kWrite : Access::kRead) -
                       memory_->arena(tier);
            };
            for (const paging::PageCopy& copy : up ? grant.to_hbm : grant.to_host) {
                append(copies_, offset(Tier::kHost, copy.host_frame, !up), offset(Tier::kHbm, copy.hbm_frame, up),
                       memory_->plane_bytes(Tier::kHbm, grant.page_class, plane));
            }
        }
    }
    streams_->copy(direction_of(issued), copies_);
}

// Between a layer's slots and its kept page: plane i is the operation's region i.
template <class T>
void CudaBackend<T>::copy_activation(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    const bool keeps = issued.operation.id.kind == Kind::kKeepActivation;
    const paging::Grant& grant = issued.grants[0];
    copies_.clear();
    for (std::size_t plane = 0; plane < issued.operation.regions.size(); ++plane) {
        const schedule::RegionName region = issued.operation.regions[plane].region;
        const std::int64_t bytes = region == kLayerInput        ? rows * model_.hidden * sizeof(T)
                                   : region == kAttentionOutput ? rows * model_.query_width() * sizeof(T)
                                                                : rows * model_.query_heads * sizeof(A);
        std::byte* kept = memory_->frame(issued, grant.tier, PageClass::kActivation, plane, grant.frames[0],
                                         keeps ? Access::kWrite : Access::kRead);
        auto* buffer = const_cast<std::byte*>(keeps ? memory_->read<std::byte>(issued, region, bytes)
                                                    : memory_->write<std::byte>(issued, region, bytes));
        if (grant.tier == Tier::kHost) {
            append(copies_, kept - memory_->arena(Tier::kHost), buffer - memory_->arena(Tier::kHbm), bytes);
        } else {
            OOMB_CUDA(cudaMemcpyAsync(keeps ? kept : buffer, keeps ? buffer : kept, bytes, cudaMemcpyDeviceToDevice,
                                      stream()));
        }
    }
    if (grant.tier == Tier::kHost) {
        streams_->copy(direction_of(issued), copies_);
    }
}

// A shard's states between their home on the host and a slot of the ring.
template <class T>
void CudaBackend<T>::copy_state(const Issued& issued) {
    const std::int64_t bytes = shards_.slot_bytes();
    const bool fetches = issued.operation.id.kind == Kind::kFetchState;
    const auto at = [&](schedule::RegionName region, bool written) {
        return written ? memory_->write<std::byte>(issued, region, bytes)
                       : memory_->read<std::byte>(issued, region, bytes);
    };
    copies_.clear();
    append(copies_, at(kHostStates, !fetches) - memory_->arena(Tier::kHost),
           at(kOptimizerShard, fetches) - memory_->arena(Tier::kHbm), bytes);
    streams_->copy(direction_of(issued), copies_);
}

template <class T>
void CudaBackend<T>::store_losses(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, first = issued.operation.first_row;
    const A* chunk = memory_->read<A>(issued, kTokenLosses, rows);
    const A* home = memory_->write<A>(issued, kHostLosses, first + rows) + first;
    copies_.clear();
    append(copies_, reinterpret_cast<const std::byte*>(home) - memory_->arena(Tier::kHost),
           reinterpret_cast<const std::byte*>(chunk) - memory_->arena(Tier::kHbm),
           rows * static_cast<std::int64_t>(sizeof(A)));
    streams_->copy(direction_of(issued), copies_);
}

#define OOMB_COPIES(T)                                            \
    template void CudaBackend<T>::load_tokens(const Issued&);     \
    template void CudaBackend<T>::copy_pages(const Issued&);      \
    template void CudaBackend<T>::copy_activation(const Issued&); \
    template void CudaBackend<T>::copy_state(const Issued&);      \
    template void CudaBackend<T>::store_losses(const Issued&);
OOMB_COPIES(BFloat16)
OOMB_COPIES(float)

}  // namespace oomb::trainer
