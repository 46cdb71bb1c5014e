/* test/python/layout.c - prints the sizes of the structs that the Python package declares again, the offsets
 * of their fields, and the values of constants, one "name value" a line. layout_test.py compares. */
#include <gcoll/gcoll.h>
#include <stdio.h>

#define SIZE(type)         printf("sizeof %s %zu\n", #type, sizeof(type))
#define FIELD(type, field) printf("offsetof %s.%s %zu\n", #type, #field, offsetof(type, field))
#define VALUE(name)        printf("value %s %lld\n", #name, (long long)(name))

static void statistics(void) {
    SIZE(gcoll_stats);
    FIELD(gcoll_stats, struct_size);
    FIELD(gcoll_stats, begun);
    FIELD(gcoll_stats, done);
    FIELD(gcoll_stats, failed);
    FIELD(gcoll_stats, sent_messages);
    FIELD(gcoll_stats, sent_bytes);
    FIELD(gcoll_stats, received_messages);
    FIELD(gcoll_stats, received_bytes);
    FIELD(gcoll_stats, waits);
    FIELD(gcoll_stats, waited_ns);
    FIELD(gcoll_stats, sleeps);
    FIELD(gcoll_stats, asleep_ns);
    FIELD(gcoll_stats, registrations);
    FIELD(gcoll_stats, retransmitted);
    FIELD(gcoll_stats, age_ns);

    SIZE(gcoll_collective_stats);
    FIELD(gcoll_collective_stats, struct_size);
    FIELD(gcoll_collective_stats, done);
    FIELD(gcoll_collective_stats, failed);
    FIELD(gcoll_collective_stats, bytes);
    FIELD(gcoll_collective_stats, sent_bytes);
    FIELD(gcoll_collective_stats, busy_ns);

    SIZE(gcoll_peer_stats);
    FIELD(gcoll_peer_stats, struct_size);
    FIELD(gcoll_peer_stats, sent_messages);
    FIELD(gcoll_peer_stats, sent_bytes);
    FIELD(gcoll_peer_stats, received_messages);
    FIELD(gcoll_peer_stats, received_bytes);
    FIELD(gcoll_peer_stats, waits);
    FIELD(gcoll_peer_stats, waited_ns);
    FIELD(gcoll_peer_stats, retransmitted);
    FIELD(gcoll_peer_stats, lane);
}

static void calls(void) {
    SIZE(gcoll_user_op);
    FIELD(gcoll_user_op, reduce);
    FIELD(gcoll_user_op, arg);
    FIELD(gcoll_user_op, commutative);
    FIELD(gcoll_user_op, element_bytes);

    SIZE(gcoll_guarded_reduce);
    FIELD(gcoll_guarded_reduce, reduce);
    FIELD(gcoll_guarded_reduce, arg);
    FIELD(gcoll_guarded_reduce, status);

    SIZE(gcoll_memory);
    FIELD(gcoll_memory, struct_size);
    FIELD(gcoll_memory, kind);
    FIELD(gcoll_memory, device);
    FIELD(gcoll_memory, streams);
    FIELD(gcoll_memory, local);

    SIZE(gcoll_collective_options);
    FIELD(gcoll_collective_options, struct_size);
    FIELD(gcoll_collective_options, algorithm);
    FIELD(gcoll_collective_options, user_op);
    FIELD(gcoll_collective_options, memory_limit_bytes);
    FIELD(gcoll_collective_options, memory);
    FIELD(gcoll_collective_options, inputs);
    FIELD(gcoll_collective_options, outputs);
    FIELD(gcoll_collective_options, buffers);
    FIELD(gcoll_collective_options, timeout_ms);
    FIELD(gcoll_collective_options, same);
    FIELD(gcoll_collective_options, counts_at_root);
    FIELD(gcoll_collective_options, done);
    FIELD(gcoll_collective_options, done_arg);
    FIELD(gcoll_collective_options, keep_input);
    FIELD(gcoll_collective_options, uniform);
    FIELD(gcoll_collective_options, order);
    FIELD(gcoll_collective_options, prescale);
    FIELD(gcoll_collective_options, postscale);
    FIELD(gcoll_collective_options, codec);

    SIZE(gcoll_collective_call);
    FIELD(gcoll_collective_call, struct_size);
    FIELD(gcoll_collective_call, collective);
    FIELD(gcoll_collective_call, input);
    FIELD(gcoll_collective_call, output);
    FIELD(gcoll_collective_call, count);
    FIELD(gcoll_collective_call, counts);
    FIELD(gcoll_collective_call, recv_counts);
    FIELD(gcoll_collective_call, type);
    FIELD(gcoll_collective_call, op);
    FIELD(gcoll_collective_call, root);
    FIELD(gcoll_collective_call, exchanges);
    FIELD(gcoll_collective_call, algorithm);
    FIELD(gcoll_collective_call, options);
    FIELD(gcoll_collective_call, timeout_ms);
    FIELD(gcoll_collective_call, inputs);
    FIELD(gcoll_collective_call, outputs);
    FIELD(gcoll_collective_call, entries);
}

static void stores(void) {
    SIZE(gcoll_store_ops);
    FIELD(gcoll_store_ops, struct_size);
    FIELD(gcoll_store_ops, name);
    FIELD(gcoll_store_ops, set);
    FIELD(gcoll_store_ops, get);
    FIELD(gcoll_store_ops, wait);
    FIELD(gcoll_store_ops, add);
    FIELD(gcoll_store_ops, remove);
    FIELD(gcoll_store_ops, destroy);
    FIELD(gcoll_store_ops, set_new);
    FIELD(gcoll_store_ops, set_timeout);
    FIELD(gcoll_store_ops, keep);
    FIELD(gcoll_store_ops, get_wait);
}

static void contexts(void) {
    SIZE(gcoll_cost_parameters);
    FIELD(gcoll_cost_parameters, alpha);
    FIELD(gcoll_cost_parameters, beta);
    FIELD(gcoll_cost_parameters, gamma);

    SIZE(gcoll_ibverbs_options);
    FIELD(gcoll_ibverbs_options, struct_size);
    FIELD(gcoll_ibverbs_options, device);
    FIELD(gcoll_ibverbs_options, port);
    FIELD(gcoll_ibverbs_options, gid_index);
    FIELD(gcoll_ibverbs_options, mtu);
    FIELD(gcoll_ibverbs_options, pkey);
    FIELD(gcoll_ibverbs_options, service_level);
    FIELD(gcoll_ibverbs_options, traffic_class);
    FIELD(gcoll_ibverbs_options, timeout);
    FIELD(gcoll_ibverbs_options, retry_count);
    FIELD(gcoll_ibverbs_options, rnr_retry);
    FIELD(gcoll_ibverbs_options, cache_bytes);
    FIELD(gcoll_ibverbs_options, device_memory);

    SIZE(gcoll_context_options);
    FIELD(gcoll_context_options, struct_size);
    FIELD(gcoll_context_options, rank);
    FIELD(gcoll_context_options, size);
    FIELD(gcoll_context_options, store);
    FIELD(gcoll_context_options, job);
    FIELD(gcoll_context_options, transport);
    FIELD(gcoll_context_options, hub);
    FIELD(gcoll_context_options, interface);
    FIELD(gcoll_context_options, port_min);
    FIELD(gcoll_context_options, port_max);
    FIELD(gcoll_context_options, timeout_ms);
    FIELD(gcoll_context_options, eager_bytes);
    FIELD(gcoll_context_options, eager_pool_bytes);
    FIELD(gcoll_context_options, spin_us);
    FIELD(gcoll_context_options, log);
    FIELD(gcoll_context_options, log_arg);
    FIELD(gcoll_context_options, allocator);
    FIELD(gcoll_context_options, progress_thread);
    FIELD(gcoll_context_options, cost);
    FIELD(gcoll_context_options, tuning);
    FIELD(gcoll_context_options, ibverbs);
    FIELD(gcoll_context_options, accelerator);
    FIELD(gcoll_context_options, accelerator_times);
    FIELD(gcoll_context_options, monitor);
    FIELD(gcoll_context_options, launch);
    FIELD(gcoll_context_options, silence_ms);
    FIELD(gcoll_context_options, checksum);
    FIELD(gcoll_context_options, same);
    FIELD(gcoll_context_options, exchange);
    FIELD(gcoll_context_options, exchange_arg);
    FIELD(gcoll_context_options, share);
    FIELD(gcoll_context_options, recovery);
    FIELD(gcoll_context_options, secret);
    FIELD(gcoll_context_options, secret_bytes);
    FIELD(gcoll_context_options, secret_file);
    FIELD(gcoll_context_options, encryption);
    FIELD(gcoll_context_options, tls_certificate);
    FIELD(gcoll_context_options, tls_key);
    FIELD(gcoll_context_options, tls_ca);
    FIELD(gcoll_context_options, tls_name);
    FIELD(gcoll_context_options, order);

    SIZE(gcoll_shrink_options);
    FIELD(gcoll_shrink_options, struct_size);
    FIELD(gcoll_shrink_options, timeout_ms);
    FIELD(gcoll_shrink_options, majority);

    SIZE(gcoll_grow_options);
    FIELD(gcoll_grow_options, struct_size);
    FIELD(gcoll_grow_options, store);
    FIELD(gcoll_grow_options, job);
    FIELD(gcoll_grow_options, most);
    FIELD(gcoll_grow_options, timeout_ms);

    SIZE(gcoll_environment);
    FIELD(gcoll_environment, struct_size);
    FIELD(gcoll_environment, rank);
    FIELD(gcoll_environment, size);
    FIELD(gcoll_environment, local_rank);
    FIELD(gcoll_environment, local_size);
    FIELD(gcoll_environment, source);
    FIELD(gcoll_environment, job);
    FIELD(gcoll_environment, store);

    SIZE(gcoll_region_key);
    FIELD(gcoll_region_key, bytes);

    SIZE(gcoll_device);
    FIELD(gcoll_device, transport);
    FIELD(gcoll_device, name);
    FIELD(gcoll_device, port);
    FIELD(gcoll_device, gid_index);
    FIELD(gcoll_device, address);
    FIELD(gcoll_device, kind);
    FIELD(gcoll_device, state);
    FIELD(gcoll_device, bits_per_second);
    FIELD(gcoll_device, mtu);
}

static void constants(void) {
    VALUE(GCOLL_TYPE_COUNT);
    VALUE(GCOLL_OP_COUNT);
    VALUE(GCOLL_COLLECTIVE_COUNT);
    VALUE(GCOLL_USER);
    VALUE(GCOLL_MAX_ELEMENT_BYTES);
    VALUE(GCOLL_MAX_LIST);
    VALUE(GCOLL_MAX_BUFFERS);
    VALUE(GCOLL_MAX_EXCHANGES);
    VALUE(GCOLL_STORE_VALUE_MAX);
    VALUE(GCOLL_PUT_NOTIFY);
    VALUE(GCOLL_COLOR_NONE);
    VALUE(GCOLL_GROW_MOST);
    VALUE(GCOLL_SAME_ON_RANKS);
    VALUE(GCOLL_SAME_IN_RUNS);
    VALUE(GCOLL_SAME_NOWHERE);
    VALUE(GCOLL_LOG_ERROR);
    VALUE(GCOLL_LOG_WARNING);
    VALUE(GCOLL_LOG_INFO);
    VALUE(GCOLL_LOG_DEBUG);
    VALUE(GCOLL_OK);
    VALUE(GCOLL_ERR_INVALID);
    VALUE(GCOLL_ERR_NO_MEMORY);
    VALUE(GCOLL_ERR_UNSUPPORTED);
    VALUE(GCOLL_ERR_TIMEOUT);
    VALUE(GCOLL_ERR_IO);
    VALUE(GCOLL_ERR_PEER);
    VALUE(GCOLL_ERR_PROTOCOL);
    VALUE(GCOLL_ERR_MISMATCH);
    VALUE(GCOLL_ERR_ABORTED);
    VALUE(GCOLL_ERR_NOT_FOUND);
    VALUE(GCOLL_ERR_STATE);
    VALUE(GCOLL_ERR_INTERNAL);
    VALUE(GCOLL_WOKEN);
    for (int type = 0; type < GCOLL_TYPE_COUNT; type++)
        printf("type %s %d\n", gcoll_type_name((gcoll_type)type), type);
    for (int op = 0; op < GCOLL_OP_COUNT; op++)
        if (op != GCOLL_USER)
            printf("op %s %d\n", gcoll_op_name((gcoll_op)op), op);
    for (int collective = 0; collective < GCOLL_COLLECTIVE_COUNT; collective++)
        printf("collective %s %d\n", gcoll_collective_name((gcoll_collective)collective), collective);
}

int main(void) {
    calls();
    statistics();
    contexts();
    stores();
    constants();
    return 0;
}
