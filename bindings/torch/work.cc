// bindings/torch/work.cc - operations in flight: who waits for them, who ends them, and how they fail; and
// the context in which they are.
#include "work.h"

#include <ATen/core/grad_mode.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "store.h"

namespace gcoll_torch {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<GcollWork>;

// Each is there for a callback that waits for a later operation.
static constexpr size_t MOST_FINISHERS = 64;
// How long the destruction of a group waits for operations in flight, so that peers get what this rank owes
// them. Others may hang, so it is not longer.
static constexpr milliseconds GRACE{10000};

// ---- Errors --------------------------------------------------------------------------------

void throw_refusal(const char *name, gcoll_status status) {
    const std::string text = std::string("gcoll: ") + name + ": " + gcoll_last_error();
    if (status == GCOLL_ERR_INVALID)
        throw std::invalid_argument(text);
    throw std::runtime_error(text);
}

// ---- Works: what torch sees ----------------------------------------------------------------

GcollWork::GcollWork(std::shared_ptr<Channel> channel, c10d::OpType type, const char *name, const char *title,
                     const std::vector<at::Tensor> &inputs)
    : Work((int)channel->settings().rank, type, title, inputs), channel_(std::move(channel)), name_(name) {}

bool GcollWork::isSuccess() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return completed_ && !exception_;
}

int GcollWork::sourceRank() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return (int)source_;
}

std::vector<at::Tensor> GcollWork::result() {
    TORCH_CHECK(isCompleted(),
                "Work needs to be completed before calling result(). Should call wait() before result().");
    return results_;
}

void GcollWork::abort() {
    channel_->abort(std::string("abort() was called on a work of ") + name_);
}

// Waits on this thread, which moves the data meanwhile, unless another thread does so already.
bool GcollWork::wait(milliseconds timeout) {
    const bool has_limit = timeout > kNoTimeout;
    const auto deadline = Clock::now() + std::min(timeout, milliseconds(LONGEST_MS));
    std::unique_lock<std::mutex> lock(mutex_);
    bool in_time = true;
    while (!completed_ && in_time) {
        if (is_claimed_) {
            if (!has_limit)
                cv_.wait(lock);
            else
                in_time = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout || completed_;
            continue;
        }
        is_claimed_ = true;
        lock.unlock();
        const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
        in_time = end_request(std::max(left, milliseconds(0)), has_limit);
        if (in_time)
            finalize();
        else
            give_up_claim();
        lock.lock();
    }
    const bool is_over = completed_;
    const std::exception_ptr error = exception_;
    lock.unlock();
    if (!is_over)
        throw std::runtime_error(std::string("gcoll: a timeout in wait(): ") + name_ +
                                 " has not ended within " + std::to_string(timeout.count()) +
                                 " ms, and goes on");
    if (error)
        std::rethrow_exception(error);
    return true;
}

// A finisher ends collectives that nobody waits for. Messages have no callback, so it is looked here.
bool GcollWork::isCompleted() {
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (completed_)
            return true;
        if (is_claimed_ || kind_ == Kind::COLLECTIVE || kind_ == Kind::BARRIER)
            return false;
        is_claimed_ = true;
    }
    if (!message_has_ended()) {
        give_up_claim();
        return false;
    }
    end_request(milliseconds(0), false);
    finalize();
    return true;
}

// By the claimer, without waiting. A test would end a receive before its size is known, so it is only looked
// at: the progress thread moves it.
bool GcollWork::message_has_ended() {
    uint64_t bytes = 0;
    int is_done = 0;
    if (kind_ == Kind::RECEIVE)
        return gcoll_request_bytes(request_, &bytes) == GCOLL_OK ||
               gcoll_context_health(channel_->context()) != GCOLL_OK;
    status_ = gcoll_request_test(&request_, &is_done);
    if (status_ != GCOLL_OK)
        text_ = gcoll_last_error();
    return !request_;
}

c10::intrusive_ptr<c10::ivalue::Future> GcollWork::getFuture() {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool marks = false;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (!future_)
            future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
        future = future_;
        marks = completed_ && !is_marked_;
        is_marked_ |= marks;
    }
    if (marks)
        mark(future);
    return future;
}

// ---- Works: how they end -------------------------------------------------------------------

// On the thread that drives the context. The claimer, if there is one, is about to see the end by itself.
void GcollWork::on_done(void *arg, gcoll_status, const char *) {
    auto *const work = static_cast<GcollWork *>(arg);
    {
        std::lock_guard<std::mutex> guard(work->mutex_);
        work->has_ended_ = true;
        if (work->is_claimed_)
            return;
    }
    work->channel_->finish_later(WorkPtr::unsafe_reclaim_from_nonowning(work));
}

bool GcollWork::try_claim() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (completed_ || is_claimed_)
        return false;
    is_claimed_ = true;
    return true;
}

// Lets others claim the work. One that has ended meanwhile is a finisher's.
void GcollWork::give_up_claim() {
    bool has_ended = false;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        is_claimed_ = false;
        has_ended = has_ended_;
    }
    cv_.notify_all();
    if (has_ended)
        channel_->finish_later(WorkPtr::unsafe_reclaim_from_nonowning(this));
}

void GcollWork::wait_quietly() {
    try {
        wait();
    } catch (const std::exception &) {
    }
}

// Waits for a message, and looks whether it has the size of its tensor: gcoll allows a smaller one.
gcoll_status GcollWork::wait_for_message(milliseconds timeout, bool has_limit, bool *in_time) {
    uint32_t index = 0, source = 0;
    uint64_t bytes = 0;
    const auto deadline = Clock::now() + timeout;
    if (has_limit) {
        while (gcoll_request_bytes(request_, &bytes) != GCOLL_OK &&
               gcoll_context_health(channel_->context()) == GCOLL_OK) {
            if (Clock::now() >= deadline) {
                *in_time = false;
                return GCOLL_ERR_TIMEOUT;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    } else {
        while (gcoll_wait_any(&request_, 1, &index) == GCOLL_WOKEN)
            ;
    }
    const bool is_known = gcoll_request_bytes(request_, &bytes) == GCOLL_OK &&
                          gcoll_request_source(request_, &source) == GCOLL_OK;
    const gcoll_status status = gcoll_request_wait(&request_);
    if (status != GCOLL_OK) {
        text_ = gcoll_last_error();
        return status;
    }
    if (is_known) {
        std::lock_guard<std::mutex> guard(mutex_);
        source_ = source;
    }
    if (!is_known || bytes == expected_bytes_)
        return GCOLL_OK;
    text_ = "the message has " + std::to_string(bytes) + " bytes; the tensor has " +
            std::to_string(expected_bytes_);
    return GCOLL_ERR_MISMATCH;
}

// By the claimer. Returns false if the time was over first; then nothing has changed.
bool GcollWork::end_request(milliseconds timeout, bool has_limit) {
    bool in_time = true;
    if (request_ && kind_ == Kind::RECEIVE) {
        status_ = wait_for_message(timeout, has_limit, &in_time);
    } else if (request_) {
        status_ =
            has_limit ? gcoll_request_wait_for(&request_, timeout.count()) : gcoll_request_wait(&request_);
        in_time = !has_limit || !request_;
        if (status_ != GCOLL_OK)
            text_ = gcoll_last_error();
    }
    if (!in_time)
        return false;
    for (const WorkPtr &work : earlier_)
        work->wait_quietly();
    return true;
}

// The result: copies dense tensors to where they belong, or says what has failed.
std::exception_ptr GcollWork::outcome() {
    try {
        if (status_ == GCOLL_OK) {
            at::NoGradGuard no_grad;
            for (Staged &staged : staged_)
                staged.to.copy_(staged.from);
            return nullptr;
        }
        std::string text = "gcoll: ";
        text += status_ == GCOLL_ERR_TIMEOUT ? "a timeout in " : "";
        text += std::string(name_) + " (operation " + std::to_string(number_) + " of its group) on " +
                channel_->rank_text(channel_->settings().rank);
        if (status_ != GCOLL_ERR_TIMEOUT)
            text += std::string(": ") + gcoll_status_text(status_);
        text += ": " + text_;
        const int64_t culprit = channel_->culprit();
        if (culprit >= 0)
            text += "; the cause is " + channel_->rank_text(culprit);
        return std::make_exception_ptr(std::runtime_error(text));
    } catch (...) {
        return std::current_exception();
    }
}

void GcollWork::mark(const c10::intrusive_ptr<c10::ivalue::Future> &future) {
    if (exception_)
        future->setError(exception_);
    else
        future->markCompleted(c10::IValue(results_));
}

// By the claimer, once.
void GcollWork::finalize() {
    const WorkPtr self = WorkPtr::unsafe_reclaim_from_nonowning(this);
    const std::exception_ptr error = outcome();
    kept_.clear();
    staged_.clear();
    earlier_.clear();
    channel_->remove(this);
    finish(error);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (future_ && !is_marked_)
            future = future_;
        is_marked_ |= future.defined();
    }
    if (future)
        mark(future);
}

// ---- The channel ---------------------------------------------------------------------------

// Those that may have to be closed at the end of the process.
struct OpenChannels {
    std::mutex lock; // guards the list
    std::vector<std::weak_ptr<Channel>> list;
};

static OpenChannels &open_channels() {
    static auto *const channels = new OpenChannels; // never freed: destructors at exit may use it
    return *channels;
}

static void remember(const std::shared_ptr<Channel> &channel) {
    OpenChannels &open = open_channels();
    std::lock_guard<std::mutex> guard(open.lock);
    open.list.erase(std::remove_if(open.list.begin(), open.list.end(),
                                   [](const std::weak_ptr<Channel> &each) { return each.expired(); }),
                    open.list.end());
    open.list.push_back(channel);
}

void Channel::close_all() {
    std::vector<std::weak_ptr<Channel>> list;
    {
        OpenChannels &open = open_channels();
        std::lock_guard<std::mutex> guard(open.lock);
        list.swap(open.list);
    }
    for (const std::weak_ptr<Channel> &each : list) {
        const std::shared_ptr<Channel> channel = each.lock();
        if (channel && channel->belongs_to_this_process())
            channel->close();
    }
}

static const char *text_or_null(const std::string &text) {
    return text.empty() ? nullptr : text.c_str();
}

std::shared_ptr<Channel> Channel::open(const c10::intrusive_ptr<c10d::Store> &store, Settings settings) {
    std::shared_ptr<Channel> channel(new Channel);
    channel->settings_ = std::move(settings);
    channel->torch_store_ = store;
    channel->owner_ = getpid();
    const Settings &s = channel->settings_;

    gcoll_status status = create_store(store.get(), &channel->store_);
    if (status != GCOLL_OK)
        throw_refusal("the store of the process group", status);
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = s.rank;
    options.size = s.size;
    options.store = channel->store_;
    options.job = "torch";
    options.launch = ""; // torch's store belongs to this launch
    options.timeout_ms = std::clamp<int64_t>(s.timeout_ms, 1, LONGEST_MS);
    options.transport = text_or_null(s.transport);
    options.interface = text_or_null(s.interface);
    options.tuning = text_or_null(s.tuning);
    options.same = s.same;
    options.checksum = s.checksum;
    options.accelerator = "none"; // tensors of devices are refused
    options.progress_thread = 1;
    status = gcoll_context_create(&options, &channel->context_);
    if (status != GCOLL_OK) {
        const std::string text = gcoll_last_error(); // the destruction may change it
        gcoll_store_destroy(channel->store_);
        channel->store_ = nullptr;
        throw std::runtime_error("gcoll: init_process_group: rank " + std::to_string(s.rank) + " of " +
                                 std::to_string(s.size) + ": " +
                                 (status == GCOLL_ERR_TIMEOUT ? "a timeout in the rendezvous: " : "") + text);
    }
    {
        std::lock_guard<std::mutex> guard(channel->lock_);
        channel->add_finisher();
    }
    remember(channel);
    return channel;
}

Channel::~Channel() {
    gcoll_store_destroy(store_);
}

bool Channel::belongs_to_this_process() const {
    return owner_ == getpid();
}

std::string Channel::rank_text(int64_t rank) const {
    std::string text = "rank " + std::to_string(rank);
    if (rank >= 0 && (size_t)rank < settings_.job_ranks.size() && settings_.job_ranks[(size_t)rank] != rank)
        text += " (rank " + std::to_string(settings_.job_ranks[(size_t)rank]) + " of the job)";
    return text;
}

int64_t Channel::culprit() const {
    return gcoll_context_culprit(context_);
}

void Channel::abort(const std::string &reason) {
    if (context_)
        gcoll_context_abort(context_, reason.c_str());
}

void Channel::add(const WorkPtr &work) {
    std::lock_guard<std::mutex> guard(lock_);
    in_flight_.push_front(work);
    work->place_ = in_flight_.begin();
}

void Channel::remove(GcollWork *work) {
    std::list<WorkPtr> removed; // freed without the lock
    std::lock_guard<std::mutex> guard(lock_);
    removed.splice(removed.begin(), in_flight_, work->place_);
    if (closes_)
        has_left_.notify_all();
}

// With the lock. The thread holds the channel until close() stops it.
void Channel::add_finisher() {
    finishers_.emplace_back([channel = shared_from_this()] { channel->run_finisher(); });
    pthread_setname_np(finishers_.back().native_handle(), "gcoll-torch");
}

void Channel::finish_later(const WorkPtr &work) {
    std::lock_guard<std::mutex> guard(lock_);
    ended_.push_back(work);
    if (busy_ == finishers_.size() && busy_ < MOST_FINISHERS && !stops_)
        try {
            add_finisher();
        } catch (const std::system_error &) { // then it waits for one of those at work
        }
    has_ended_.notify_one();
}

std::vector<WorkPtr> Channel::collectives_in_flight() {
    std::vector<WorkPtr> works;
    std::lock_guard<std::mutex> guard(lock_);
    for (const WorkPtr &work : in_flight_)
        if (work->kind_ == GcollWork::Kind::COLLECTIVE)
            works.push_back(work);
    return works;
}

void Channel::end_forgotten_messages() {
    std::vector<WorkPtr> forgotten;
    {
        std::lock_guard<std::mutex> guard(lock_);
        for (const WorkPtr &work : in_flight_)
            if ((work->kind_ == GcollWork::Kind::SEND || work->kind_ == GcollWork::Kind::RECEIVE) &&
                work.use_count() == 1)
                forgotten.push_back(work);
    }
    for (const WorkPtr &work : forgotten)
        work->isCompleted();
}

void Channel::run_finisher() {
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
        has_ended_.wait(lock, [this] { return stops_ || !ended_.empty(); });
        if (ended_.empty())
            return;
        WorkPtr work = std::move(ended_.front());
        ended_.pop_front();
        busy_++;
        lock.unlock();
        if (work->try_claim()) {
            work->end_request(milliseconds(0), false);
            work->finalize();
        }
        work.reset();
        lock.lock();
        busy_--;
    }
}

// Ends messages that nobody will wait for any more. Returns whether nothing is in flight.
bool Channel::wait_until_empty(milliseconds limit) {
    const auto deadline = Clock::now() + limit;
    for (;;) {
        std::vector<WorkPtr> messages;
        {
            std::unique_lock<std::mutex> lock(lock_);
            if (in_flight_.empty())
                return true;
            if (Clock::now() >= deadline)
                return false;
            for (const WorkPtr &work : in_flight_)
                if (work->kind_ == GcollWork::Kind::SEND || work->kind_ == GcollWork::Kind::RECEIVE)
                    messages.push_back(work);
        }
        for (const WorkPtr &work : messages)
            work->isCompleted();
        std::unique_lock<std::mutex> lock(lock_);
        has_left_.wait_for(lock, milliseconds(2), [this] { return in_flight_.empty(); });
    }
}

// A receive whose message does not come any more would otherwise hold up the end.
void Channel::cancel_receives() {
    std::vector<WorkPtr> receives;
    {
        std::lock_guard<std::mutex> guard(lock_);
        for (const WorkPtr &work : in_flight_)
            if (work->kind_ == GcollWork::Kind::RECEIVE)
                receives.push_back(work);
    }
    for (const WorkPtr &work : receives) {
        if (work->isCompleted() || !work->try_claim())
            continue;
        if (gcoll_request_cancel(&work->request_) != GCOLL_OK && work->request_) {
            work->give_up_claim();
            continue;
        }
        work->status_ = GCOLL_ERR_ABORTED;
        work->text_ = "the process group was destroyed";
        work->finalize();
    }
}

void Channel::close() {
    {
        std::lock_guard<std::mutex> guard(lock_);
        closes_ = true;
    }
    cancel_receives();
    if (!wait_until_empty(std::min(GRACE, milliseconds(std::max<int64_t>(settings_.timeout_ms, 1))))) {
        abort("the process group was destroyed with operations in flight");
        wait_until_empty(GRACE);
    }
    std::vector<std::thread> finishers;
    {
        std::lock_guard<std::mutex> guard(lock_);
        stops_ = true;
        has_ended_.notify_all();
        finishers.swap(finishers_);
    }
    for (std::thread &finisher : finishers)
        if (finisher.get_id() == std::this_thread::get_id())
            finisher.detach(); // a callback of a future held the last reference
        else
            finisher.join();
    gcoll_context_destroy(context_);
    context_ = nullptr;
}

} // namespace gcoll_torch
