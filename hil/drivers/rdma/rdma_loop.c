/* Messages of queue pairs, timed without an interpreter: post, poll, post again; what rdma_loop.py
 * carries as machine code.  Made by
 *   cc -Os -fPIC -ffreestanding -fno-stack-protector -fcf-protection=none \
 *      -fno-asynchronous-unwind-tables -c rdma_loop.c
 *   objcopy -O binary -j .text rdma_loop.o
 */
#include <stdint.h>

enum { MONOTONIC = 1, AT_ONCE = 8 };

struct completion { uint64_t lane; int32_t status; uint8_t rest[36]; }; /* struct ibv_wc */
struct moment { int64_t seconds, nanoseconds; };
struct lane { void *pair, *batch; int64_t outstanding; };

struct loop {
    int (*post)(void *pair, void *batch, void **bad);
    int (*poll)(void *queue, int most, struct completion *done);
    int (*clock)(int which, struct moment *now);
    int (*yield)(void); /* null where a processor is ours alone */
    void *queue;
    struct lane *lanes;
    int64_t count, depth, number, batch; /* messages, outstanding on a lane, lanes, messages a post */
    int64_t posted, failed, status, refused; /* what happened; refused: errno of a post */
};

static inline __attribute__((always_inline)) int64_t nanoseconds(struct loop *l)
{
    struct moment now;
    l->clock(MONOTONIC, &now);
    return now.seconds * 1000000000 + now.nanoseconds;
}

static inline __attribute__((always_inline)) void fill(struct loop *l, struct lane *lane)
{
    void *bad;
    while (!l->failed && !l->refused && l->posted < l->count
           && lane->outstanding + l->batch <= l->depth) {
        l->refused = l->post(lane->pair, lane->batch, &bad);
        if (!l->refused) {
            lane->outstanding += l->batch;
            l->posted += l->batch;
        }
    }
}

/* Nanoseconds until all messages completed; of an empty poll where there are none. */
int64_t run(struct loop *l)
{
    struct completion done[AT_ONCE];
    int64_t since = nanoseconds(l), completed = 0;
    for (int64_t k = 0; k < l->number; k++)
        fill(l, &l->lanes[k]);
    do {
        int got = l->poll(l->queue, AT_ONCE, done);
        if (got < 0) {
            l->refused = -got;
            break;
        }
        for (int k = 0; k < got; k++) {
            struct lane *lane = &l->lanes[done[k].lane];
            lane->outstanding--;
            if (done[k].status && !l->failed++)
                l->status = done[k].status;
            fill(l, lane);
        }
        completed += got;
        if (!got && l->yield)
            l->yield();
    } while (completed < l->posted);
    return nanoseconds(l) - since;
}
