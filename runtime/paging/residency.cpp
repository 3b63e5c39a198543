#include "runtime/paging/residency.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"

namespace oomb::paging {

namespace {

// The frame that is given back last is taken first: the last page goes first, so that pages which are born where these
// died lie in ascending frames, as many at a time as these were.
std::int64_t in_order(PageUse use, const PageSet& pages, std::int64_t i) {
    return use == PageUse::kRelease ? pages.count - 1 - i : i;
}

}  // namespace

void Grant::clear() {
    frames.clear();
    first_touch.clear();
    to_hbm.clear();
    to_host.clear();
    freed_hbm.clear();
    freed_host.clear();
}

Residency::Residency(const ResidencyShape& shape, const NextUses* next_uses)
    : shape_(shape),
      next_uses_(next_uses),
      hbm_(shape.hbm_frames),
      host_(shape.host_frames),
      pages_(shape.layers * shape.pages_per_layer),
      page_in_(shape.hbm_frames, -1),
      evictable_(shape.hbm_frames),
      last_request_(shape.hbm_frames, 0) {
    for (std::int64_t page = 0; page * shape.layers < shape.resident_pages && page < shape.pages_per_layer; ++page) {
        for (std::int64_t layer = 0; layer < std::min(shape.layers, shape.resident_pages - page * shape.layers);
             ++layer) {
            pages_[layer * shape.pages_per_layer + page].lives_in_hbm = true;
        }
    }
}

std::int64_t Residency::table_bytes() const {
    const std::size_t tables = pages_.size() * sizeof(Page) + page_in_.size() * sizeof(page_in_[0]) +
                               last_request_.size() * sizeof(last_request_[0]);
    return static_cast<std::int64_t>(tables) + evictable_.table_bytes() + hbm_.table_bytes() + host_.table_bytes();
}

std::int64_t Residency::index_of(const PageSet& pages, std::int64_t i) const {
    const std::int64_t page = pages.page(i);
    // No require() where every page of every request passes: what its text is made of would be computed each time.
    if (page < 0 || page >= shape_.pages_per_layer || pages.layer < 0 || pages.layer >= shape_.layers) {
        fail<InternalError>("{} page {} of layer {}: there are {} pages and {} layers", name_of(shape_.page_class),
                            page, pages.layer, shape_.pages_per_layer, shape_.layers);
    }
    return pages.layer * shape_.pages_per_layer + page;
}

// Where the pages of a request are used.
Tier Residency::tier_of(const PageSet& pages) const {
    if (shape_.cached_in_hbm || pages.count == 0) {
        return Tier::kHbm;
    }
    const bool in_hbm = lives_in_hbm(index_of(pages, 0));
    for (std::int64_t i = 1; i < pages.count; ++i) {
        if (lives_in_hbm(index_of(pages, i)) != in_hbm) {
            fail<InternalError>("{} pages: a request has some at home in HBM, some not", name_of(shape_.page_class));
        }
    }
    return in_hbm ? Tier::kHbm : Tier::kHost;
}

Grant Residency::request(PageUse use, const PageSet& pages) {
    Grant grant;
    request(use, pages, grant);
    return grant;
}

void Residency::request(PageUse use, const PageSet& pages, Grant& grant) {
    ++request_number_;
    grant.clear();
    grant.page_class = shape_.page_class;
    grant.tier = tier_of(pages);
    // Pages already in HBM are marked first, so that making room for the others can't evict them. Mostly all are.
    bool missing = false;
    for (std::int64_t i = 0; use != PageUse::kRelease && i < pages.count; ++i) {
        const std::int64_t index = index_of(pages, i);
        touch(index);
        missing = missing || pages_[index].hbm_frame < 0;
        if (!missing) {
            grant.frames.push_back(pages_[index].hbm_frame);
        }
    }
    if (!missing && (use == PageUse::kRead || use == PageUse::kFetchIfAlive)) {
        return;
    }
    grant.frames.clear();
    if (missing && grant.tier == Tier::kHbm && use != PageUse::kWriteBack) {
        find_frames(use, pages);
    }
    for (std::int64_t i = 0; i < pages.count; ++i) {
        const std::int64_t index = index_of(pages, in_order(use, pages, i));
        Page& page = pages_[index];
        const bool may_be_missing =
            use == PageUse::kBirth || use == PageUse::kAccumulate || use == PageUse::kFetchIfAlive;
        if (!page.alive && !may_be_missing) {
            fail<InternalError>("{} page {} of layer {} does not exist", name_of(shape_.page_class),
                                pages.page(in_order(use, pages, i)), pages.layer);
        }
        if (page.alive && use == PageUse::kBirth) {
            fail<InternalError>("{} page {} of layer {} is born twice", name_of(shape_.page_class), pages.page(i),
                                pages.layer);
        }
        switch (use) {
            case PageUse::kBirth:
                give_birth(index, grant);
                break;
            case PageUse::kFetchIfAlive:
            case PageUse::kRead:
                page.alive ? bring(index, grant) : grant.frames.push_back(-1);
                break;
            case PageUse::kAccumulate:
                grant.first_touch.push_back(page.alive ? 0 : 1);
                page.alive ? bring(index, grant) : give_birth(index, grant);
                page.newer_in_hbm = grant.tier == Tier::kHbm;
                touch(index);
                break;
            case PageUse::kWriteBack:
                write_back(index, grant);
                break;
            case PageUse::kRelease:
                release(index, grant);
                break;
        }
    }
}

// All at once, so that they can be put in order; which ones they are does not depend on it.
void Residency::find_frames(PageUse use, const PageSet& pages) {
    const bool births = use == PageUse::kBirth || use == PageUse::kAccumulate;
    found_.clear();
    next_found_ = 0;
    try {
        for (std::int64_t i = 0; i < pages.count; ++i) {
            const Page& page = pages_[index_of(pages, i)];
            if (page.hbm_frame < 0 && (page.alive || births)) {
                found_.push_back(hbm_.has_free() ? hbm_.take() : evict());
            }
        }
    } catch (const Error&) {
        for (const std::int32_t frame : found_) {
            hbm_.give_back(frame);
        }
        throw;
    }
    if (!std::is_sorted(found_.begin(), found_.end())) {
        std::sort(found_.begin(), found_.end());
    }
}

void Residency::give_birth(std::int64_t index, Grant& grant) {
    Page& page = pages_[index];
    page.alive = true;
    ++alive_;
    if (grant.tier == Tier::kHost) {
        page.host_frame = host_.take();
        grant.frames.push_back(page.host_frame);
        return;
    }
    page.newer_in_hbm = true;
    grant.frames.push_back(take_hbm_frame(index));
}

void Residency::bring(std::int64_t index, Grant& grant) {
    Page& page = pages_[index];
    if (grant.tier == Tier::kHost) {
        grant.frames.push_back(page.host_frame);
        return;
    }
    if (page.hbm_frame < 0) {
        take_hbm_frame(index);
        grant.to_hbm.push_back({page.hbm_frame, page.host_frame});
    }
    grant.frames.push_back(page.hbm_frame);
}

void Residency::write_back(std::int64_t index, Grant& grant) {
    Page& page = pages_[index];
    if (lives_in_hbm(index) || !page.newer_in_hbm) {
        grant.frames.push_back(-1);
        return;
    }
    if (page.host_frame < 0) {
        if (shape_.host_limited && !host_.has_free()) {
            fail<DoesNotFitError>(
                "K/V gradient pages: the {} that have room on the host are there, and one more is to be written: take "
                "a larger --gradient-pages, or leave it out",
                host_.frames());
        }
        page.host_frame = host_.take();
    }
    page.newer_in_hbm = false;
    touch(index);
    grant.frames.push_back(page.hbm_frame);
    grant.to_host.push_back({page.hbm_frame, page.host_frame});
}

void Residency::release(std::int64_t index, Grant& grant) {
    Page& page = pages_[index];
    if (page.hbm_frame >= 0) {
        if (!lives_in_hbm(index)) {
            evictable_.remove(page.hbm_frame);
            cache_used_ = request_number_;
        }
        hbm_.give_back(page.hbm_frame);
        grant.freed_hbm.push_back(page.hbm_frame);
    }
    if (page.host_frame >= 0) {
        host_.give_back(page.host_frame);
        grant.freed_host.push_back(page.host_frame);
    }
    page = {.lives_in_hbm = page.lives_in_hbm};
    --alive_;
}

std::int32_t Residency::take_hbm_frame(std::int64_t index) {
    const std::int32_t frame = found_.at(next_found_++);
    pages_[index].hbm_frame = frame;
    page_in_[frame] = index;
    touch(index);
    return frame;
}

// The frame of the page that made room.
std::int32_t Residency::evict() {
    const std::int32_t frame = victim();
    if (frame < 0) {
        fail<InternalError>("{} pages: a request needs more than the {} HBM frames that may make room",
                            name_of(shape_.page_class), shape_.hbm_frames);
    }
    pages_[page_in_[frame]].hbm_frame = -1;
    evictable_.remove(frame);
    return frame;
}

// The frame that makes room, negative where each is of the present request.
std::int32_t Residency::victim() {
    if (next_uses_ == nullptr) {
        const bool any = !evictable_.empty() && last_request_[evictable_.oldest()] != request_number_;
        return any ? evictable_.oldest() : -1;
    }
    if (victims_of_request_ != request_number_) {
        find_victims();
    }
    if (victims_.empty()) {
        return -1;
    }
    std::pop_heap(victims_.begin(), victims_.end());
    const std::int32_t frame = victims_.back().frame;
    victims_.pop_back();
    return frame;
}

// Next uses of pages do not change within a request, so one look at them serves all that it evicts.
void Residency::find_victims() {
    victims_of_request_ = request_number_;
    victims_.clear();
    std::int64_t age = 0;
    for (std::int32_t frame = evictable_.empty() ? -1 : evictable_.oldest(); frame >= 0;
         frame = evictable_.after(frame)) {
        const std::int64_t page = page_in_[frame];
        if (last_request_[frame] != request_number_ && !pages_[page].newer_in_hbm) {
            victims_.push_back(
                {next_uses_->next_use(page / shape_.pages_per_layer, page % shape_.pages_per_layer), --age, frame});
        }
    }
    std::make_heap(victims_.begin(), victims_.end());
}

void Residency::use_in_cache(const Page& page) {
    const std::int32_t frame = page.hbm_frame;
    last_request_[frame] = request_number_;
    cache_used_ = request_number_;
    if (page.newer_in_hbm) {
        evictable_.remove(frame);
    } else {
        evictable_.touch(frame);
    }
}

std::uint64_t Residency::oldest_use() const {
    return evictable_.empty() ? 0 : last_request_[evictable_.oldest()];
}

void Residency::rename_cached(std::int64_t layers, std::int64_t pages) {
    const std::int64_t shift = layers * shape_.pages_per_layer + pages;
    if (evictable_.empty()) {
        return;
    }
    for (std::int32_t frame = evictable_.oldest(); frame >= 0; frame = evictable_.after(frame)) {
        pages_[page_in_[frame]].hbm_frame = -1;
    }
    for (std::int32_t frame = evictable_.oldest(); frame >= 0; frame = evictable_.after(frame)) {
        const std::int64_t index = page_in_[frame] + shift;
        require(index >= 0 && index < std::ssize(pages_) && !lives_in_hbm(index) && pages_[index].host_frame >= 0,
                "{} page {}: renamed to a page that is not on the host", name_of(shape_.page_class), page_in_[frame]);
        pages_[index].hbm_frame = frame;
        page_in_[frame] = index;
    }
}

void Residency::empty_cache() {
    std::vector<std::int32_t> frames;  // the next page takes the oldest one, as if it made room
    std::int32_t older = -1;
    for (std::int32_t frame = evictable_.empty() ? -1 : evictable_.newest(); frame >= 0; frame = older) {
        older = evictable_.before(frame);
        Page& page = pages_[page_in_[frame]];
        page.hbm_frame = -1;
        evictable_.remove(frame);
        frames.push_back(frame);
    }
    hbm_.give_back_beneath(frames);
    cache_used_ = request_number_;
}

void Residency::settle(bool born, const PageSet& pages) {
    for (std::int64_t i = 0; i < pages.count; ++i) {
        const std::int64_t index = index_of(pages, in_order(born ? PageUse::kBirth : PageUse::kRelease, pages, i));
        Page& page = pages_[index];
        const bool in_hbm = lives_in_hbm(index);
        require(page.alive != born && (in_hbm || page.hbm_frame < 0), "{} page {}: cannot be settled",
                name_of(shape_.page_class), index);
        std::int32_t& frame = in_hbm ? page.hbm_frame : page.host_frame;
        FramePool& pool = in_hbm ? hbm_ : host_;
        if (born) {
            frame = pool.take();
            page.alive = true;
            page.newer_in_hbm = in_hbm;
        } else {
            pool.give_back(frame);
            page = {.lives_in_hbm = in_hbm};
        }
        if (born && in_hbm) {
            page_in_[frame] = index;
        }
        alive_ += born ? 1 : -1;
    }
}

}  // namespace oomb::paging
