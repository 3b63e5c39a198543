#include "runtime/device/transfer_engine.hpp"

#include "runtime/device/check.hpp"

namespace oomb::device {

TransferEngine::TransferEngine(const ArenaView& hbm, const ArenaView& host, const TransferOptions& options)
    : hbm_(hbm), host_(host), calls_(options.calls), events_(options.events, options.timing) {}

TransferEngine::~TransferEngine() {
    for (const Stream& stream : streams_) {
        cudaStreamSynchronize(stream.get());
    }
}

EventLease TransferEngine::enqueue(Direction direction, std::span<const Copy> copies,
                                   std::span<const cudaEvent_t> waits) {
    for (const Copy& copy : copies) {
        require(copy.bytes > 0, "copy of {} bytes", copy.bytes);
        hbm_.at(copy.device_offset, copy.bytes);
        host_.at(copy.host_offset, copy.bytes);
    }
    EventLease done = events_.lease();
    for (const cudaEvent_t event : waits) {
        stream(direction).enqueue_wait(event);
    }
    batch_.clear();
    for (const Copy& copy : copies) {
        add(direction, copy);
    }
    flush(direction);
    stream(direction).enqueue_record(done.get());
    return done;
}

void TransferEngine::add(Direction direction, const Copy& copy) {
    for (std::int64_t done = 0; done < copy.bytes;) {
        const std::int64_t host_offset = copy.host_offset + done, device_offset = copy.device_offset + done;
        const std::int64_t count = bytes_in_piece(host_, host_offset, copy.bytes - done);
        std::byte* const host = host_.at(host_offset, count);
        std::byte* const device = hbm_.at(device_offset, count);
        const bool up = direction == Direction::kHostToDevice;
        batch_.add(up ? device : host, up ? host : device, count);
        if (batch_.full()) {
            flush(direction);
        }
        done += count;
    }
}

void TransferEngine::flush(Direction direction) {
    if (direction == Direction::kDeviceToHost) {
        batch_.sort_by_destination();
    }
    if (batch_.size() > 0 && batched_) {
        cudaMemcpyAttributes attributes{};
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
        std::size_t begin = 0;
        const cudaError_t status = calls_.batch(batch_.destinations(), batch_.sources(), batch_.bytes(), batch_.size(),
                                                &attributes, &begin, 1, stream(direction).get());
        if (status == cudaErrorNotSupported || status == cudaErrorCallRequiresNewerDriver) {
            cudaGetLastError();
            batched_ = false;
        } else {
            check(status, "cudaMemcpyBatchAsync");
            batch_.clear();
        }
    }
    flush_one_by_one(direction);
}

void TransferEngine::flush_one_by_one(Direction direction) {
    const auto kind = direction == Direction::kHostToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
        check(calls_.single(batch_.destinations()[i], batch_.sources()[i], batch_.bytes()[i], kind,
                            stream(direction).get()),
              "cudaMemcpyAsync");
    }
    batch_.clear();
}

void TransferEngine::wait_idle() const {
    for (const Stream& stream : streams_) {
        stream.wait_idle();
    }
}

}  // namespace oomb::device
