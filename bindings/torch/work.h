// bindings/torch/work.h - operations in flight, and the context in which they are.
//
// Threads. An operation is started by the thread that calls torch. It then proceeds by the thread that waits
// for it, or by the context's progress thread while nobody waits. Somebody has to end it: its waiter, if
// there is one. If there is none, a finisher does, which is a thread of the channel. It is needed because
// ending an operation may run a callback of a future, which may be Python and may start the next operation.
// No such thing may happen in options.done, which runs while the context's lock is held. A callback may even
// wait for the operation that it starts, as hooks of torch do. So another finisher comes when all are at
// work.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gcoll/gcoll.h>

namespace gcoll_torch {

class Channel;

constexpr int64_t LONGEST_MS = 86400000; // that gcoll takes as a time limit

// What a group is made with, beside the store.
struct Settings {
    uint32_t rank = 0, size = 1;
    int64_t timeout_ms = 0;
    std::string transport, interface, algorithm, tuning; // empty: gcoll's default
    int same = GCOLL_SAME_DEFAULT;
    bool checksum = false;
    std::vector<int64_t> job_ranks; // the rank in the whole job of each rank; empty: not known
};

class GcollWork : public c10d::Work {
  public:
    // name: as error texts have it. title: as the profiler has it. inputs: for the profiler.
    GcollWork(std::shared_ptr<Channel> channel, c10d::OpType type, const char *name, const char *title,
              const std::vector<at::Tensor> &inputs);
    ~GcollWork() override = default;

    bool isCompleted() override;
    bool isSuccess() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  private:
    friend class Channel;
    friend class Call;
    friend class ProcessGroupGcoll;
    enum class Kind { COLLECTIVE, BARRIER, SEND, RECEIVE };

    static void on_done(void *arg, gcoll_status status, const char *text);
    bool try_claim();
    bool message_has_ended();
    bool end_request(std::chrono::milliseconds timeout, bool has_limit);
    gcoll_status wait_for_message(std::chrono::milliseconds timeout, bool has_limit, bool *in_time);
    void finalize();
    void give_up_claim();
    void wait_quietly();
    void mark(const c10::intrusive_ptr<c10::ivalue::Future> &future);
    std::exception_ptr outcome();

    const std::shared_ptr<Channel> channel_;
    const char *const name_;
    Kind kind_ = Kind::COLLECTIVE;
    uint64_t number_ = 0; // of this operation in its group

    // Of the thread that has claimed the work, which alone ends it.
    gcoll_request *request_ = nullptr;
    gcoll_status status_ = GCOLL_OK;
    std::string text_;
    int64_t source_ = -1;
    uint64_t expected_bytes_ = 0; // of a message to receive

    // Buffers in flight, and tensors that get a copy of a dense one at the end.
    struct Staged {
        at::Tensor to, from;
    };
    std::vector<at::Tensor> kept_;
    std::vector<Staged> staged_;
    std::vector<at::Tensor> results_;
    std::vector<c10::intrusive_ptr<GcollWork>> earlier_; // a barrier ends after these

    // Guarded by mutex_ of the base class, which is never held in a call of gcoll.
    bool is_claimed_ = true; // by the thread that starts it
    bool has_ended_ = false;
    bool is_marked_ = false;
    c10::intrusive_ptr<c10::ivalue::Future> future_;

    std::list<c10::intrusive_ptr<GcollWork>>::iterator place_; // in the channel's list
};

// A context, the works in flight on it, and the finishers.
class Channel : public std::enable_shared_from_this<Channel> {
  public:
    // Meets the other ranks in the store. Throws if they do not come in time.
    static std::shared_ptr<Channel> open(const c10::intrusive_ptr<c10d::Store> &store, Settings settings);
    ~Channel();

    // Waits for works in flight for a while, aborts those that are left, and destroys the context. Later
    // calls do nothing.
    void close();
    // Closes all channels of this process. Python has to call it before it ends: a finisher that waits for
    // Python's lock after that would be ended in the middle of a destructor, which aborts the process.
    static void close_all();
    // False in a forked child, which has none of its threads.
    bool belongs_to_this_process() const;
    void abort(const std::string &reason);
    gcoll_context *context() const { return context_; }
    const Settings &settings() const { return settings_; }
    // "rank 2", and its rank in the job if that differs.
    std::string rank_text(int64_t rank) const;
    // The rank that broke the context, or -1.
    int64_t culprit() const;

    void add(const c10::intrusive_ptr<GcollWork> &work);
    void remove(GcollWork *work);
    void finish_later(const c10::intrusive_ptr<GcollWork> &work);
    std::vector<c10::intrusive_ptr<GcollWork>> collectives_in_flight();
    // Ends messages whose works nobody holds any more.
    void end_forgotten_messages();

    // Taken by each start, so that operations get their numbers in the order in which they begin.
    std::mutex start_lock;
    uint64_t started = 0; // guarded by start_lock

  private:
    Channel() = default;
    void add_finisher();
    void run_finisher();
    bool wait_until_empty(std::chrono::milliseconds limit);
    void cancel_receives();

    Settings settings_;
    c10::intrusive_ptr<c10d::Store> torch_store_;
    gcoll_store *store_ = nullptr;
    gcoll_context *context_ = nullptr;
    int owner_ = 0; // process

    std::mutex lock_;                   // guards all that follows
    std::condition_variable has_ended_; // for the finishers
    std::condition_variable has_left_;  // for close()
    std::list<c10::intrusive_ptr<GcollWork>> in_flight_;
    std::deque<c10::intrusive_ptr<GcollWork>> ended_;
    bool closes_ = false, stops_ = false;
    std::vector<std::thread> finishers_;
    size_t busy_ = 0; // finishers at work
};

// Throws the error of a call that gcoll refused: ValueError or RuntimeError.
[[noreturn]] void throw_refusal(const char *name, gcoll_status status);

} // namespace gcoll_torch
