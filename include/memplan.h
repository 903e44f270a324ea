/* SPDX-License-Identifier: MIT */
/**
 * libmemplan: how much GPU memory a training run will need, and whether it fits.
 *
 * Three objects: a plan (what is run), a report (the answer), and an error in the caller's own
 * memory. A fourth, a log, reads the out-of-memory messages of runs that were. JSON goes in and
 * comes out; small plain structs carry what a launcher reads.
 *
 *     struct memplan_error err;
 *     struct memplan_plan *plan = NULL;
 *     struct memplan_report *report = NULL;
 *
 *     if (memplan_plan_load(json, len, "plan.json", &plan, &err) ||
 *         memplan_plan_set(plan, "training.sequence_length=24576", &err) ||
 *         memplan_estimate(plan, NULL, &report, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *     else if (memplan_report_verdict(report) != MEMPLAN_FITS)
 *         refuse();
 *     memplan_report_free(report);
 *     memplan_plan_free(plan);
 *
 * Threads: there is no global state. Different objects may be used from different threads; one plan
 * from one thread at a time; a report never changes and may be read from many.
 *
 * Guest rule: the library never prints, exits, opens files, reads the environment, changes locale
 * or signals, starts threads, or touches a GPU. Time and memory are bounded by limits on its input.
 *
 * Ownership words: "new" (the caller frees it), "borrowed" (valid while its parent lives).
 * Every function that can fail returns a status and fills *err when err is not NULL.
 */
#ifndef MEMPLAN_H
#define MEMPLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MEMPLAN_API __attribute__((visibility("default")))
#else
#define MEMPLAN_API
#endif

#define MEMPLAN_VERSION_MAJOR  0
#define MEMPLAN_VERSION_MINOR  1
#define MEMPLAN_VERSION_PATCH  0
#define MEMPLAN_VERSION_STRING "0.1.0"

/** Values are stable; new ones are added at the end. */
enum memplan_status {
    MEMPLAN_OK = 0,
    MEMPLAN_ERR_NOMEM,       /**< this process is out of memory */
    MEMPLAN_ERR_ARG,         /**< caller's mistake: NULL, bad enum */
    MEMPLAN_ERR_SYNTAX,      /**< input is not well formed */
    MEMPLAN_ERR_VALUE,       /**< well formed, but a value is impossible */
    MEMPLAN_ERR_UNSUPPORTED, /**< known to exist, not modelled */
    MEMPLAN_ERR_OVERFLOW,    /**< a byte count does not fit in 64 bits */
    MEMPLAN_ERR_LIMIT,       /**< input larger than a documented limit */
    MEMPLAN_ERR_INTERNAL,    /**< a bug in this library */
};

/** Caller's memory. The layout is frozen. */
struct memplan_error {
    enum memplan_status status;
    uint32_t line, column; /**< 1-based, 0 when unknown */
    uint64_t offset;       /**< bytes from the start of the input */
    char source[128];      /**< file name as the caller gave it */
    char path[128];        /**< field at fault, as a JSON pointer */
    char text[512];        /**< one sentence, no newline: found, expected */
};

/** The verdict; the values are the exit codes of the command. */
enum memplan_verdict {
    MEMPLAN_FITS = 0,
    MEMPLAN_DOES_NOT_FIT = 3,
    MEMPLAN_INSIDE_MARGIN = 4,
    MEMPLAN_CANNOT_TELL = 5,
};

/** What a launcher reads. Set size to sizeof(struct memplan_summary) first: the library writes at
 * most that many bytes. All sizes are bytes of the worst rank. */
struct memplan_summary {
    size_t size;
    enum memplan_verdict verdict;
    uint32_t alternatives;       /**< combinations that the readings leave */
    double survival_probability; /**< 0 to 1; -1 without a device */
    uint64_t live_bytes;         /**< peak of live storages, each rounded up to 512 */
    uint64_t allocated_bytes;    /**< torch.cuda.max_memory_allocated */
    uint64_t reserved_bytes;     /**< torch.cuda.max_memory_reserved on a card without limit */
    uint64_t needs_low_bytes;    /**< below: the run always failed; 0 with peaks_only */
    uint64_t needs_high_bytes;   /**< above: the run always survived; 0 with peaks_only */
    uint64_t device_bytes;       /**< what the card shows: needs, context, NCCL */
    uint64_t usable_bytes;       /**< what the card can give to PyTorch's allocator; 0: no device */
    uint64_t parameters;         /**< count, whole model, tied ones once */
    uint64_t trainable_parameters;
};

struct memplan_calibration; /**< what readings say of a plan's figures; immutable */

/** How to estimate. Set size to sizeof(struct memplan_options) and the rest to 0 for the defaults.
 * A member that the library is too old to know must be 0, or MEMPLAN_ERR_ARG comes back. */
struct memplan_options {
    size_t size;
    double risk;              /**< largest accepted chance that a "fits" is wrong; 0: 0.01 */
    uint32_t ignore_readings; /**< 1: the plan's observations are not used */
    uint32_t no_suggestions;  /**< 1: do not search the largest sequence length that fits */
    uint32_t dump_stages;     /**< bits of enum memplan_stage that memplan_report_dump can give */
    uint32_t all_ranks; /**< 1: figures for every rank that differs, not only for the one that holds
                           most */
    uint32_t
        peaks_only; /**< 1: live, allocated, reserved and the verdict alone: neither the band of
                       needs nor what the peak is made of, nor suggestions. A part of the time */
    const struct memplan_calibration *calibration; /**< to correct by; NULL: none. Borrowed */
    uint32_t verdict_only; /**< 1: as peaks_only, and no more than the same verdict takes: where
                              every alternative fits, or none does, the observations are not used
                              and survival_probability is a bound, not a figure */
};

/** Stages that can be dumped. */
enum memplan_stage {
    MEMPLAN_STAGE_SPEC = 1 << 0,     /**< the plan with its defaults, JSON */
    MEMPLAN_STAGE_TIMELINE = 1 << 1, /**< one line per allocation and free, tab separated */
    MEMPLAN_STAGE_REPLAY = 1 << 2,   /**< the allocator's counters at each phase, tab separated */
};

struct memplan_plan;   /**< description of a run; may be changed and estimated again */
struct memplan_report; /**< result of one estimate; immutable */

/**
 * Reads a plan, or a Hugging Face config.json, from len bytes of JSON.
 * source names the input in messages. *plan_out is new; untouched on failure.
 * Limits: 64 MiB of input, 64 levels of nesting, 4096 combinations of alternatives.
 */
MEMPLAN_API enum memplan_status memplan_plan_load(const void *json, size_t len, const char *source,
                                                  struct memplan_plan **plan_out,
                                                  struct memplan_error *err);

/** Sets one field: "training.sequence_length=24576". The value is JSON; what is not JSON is text.
 * On failure the plan is as before. */
MEMPLAN_API enum memplan_status memplan_plan_set(struct memplan_plan *plan, const char *assignment,
                                                 struct memplan_error *err);

/** Checks every field of the plan as memplan_estimate would. */
MEMPLAN_API enum memplan_status memplan_plan_check(const struct memplan_plan *plan,
                                                   struct memplan_error *err);

/** The plan as JSON, defaults not filled in. *json_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_plan_to_json(const struct memplan_plan *plan,
                                                     char **json_out, struct memplan_error *err);

MEMPLAN_API void memplan_plan_free(struct memplan_plan *plan); /**< NULL is accepted */

/**
 * Runs the plan: every combination of alternatives is traced, replayed and judged.
 * options may be NULL. *report_out is new; untouched on failure.
 */
MEMPLAN_API enum memplan_status memplan_estimate(const struct memplan_plan *plan,
                                                 const struct memplan_options *options,
                                                 struct memplan_report **report_out,
                                                 struct memplan_error *err);

MEMPLAN_API enum memplan_verdict memplan_report_verdict(const struct memplan_report *report);

/** Fills *summary, whose size field the caller has set. */
MEMPLAN_API enum memplan_status memplan_report_summary(const struct memplan_report *report,
                                                       struct memplan_summary *summary,
                                                       struct memplan_error *err);

/** The verdict's reason in one plain sentence. Borrowed. */
MEMPLAN_API const char *memplan_report_reason(const struct memplan_report *report);

/** The whole report as JSON (docs/json.md). *json_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_report_to_json(const struct memplan_report *report,
                                                       char **json_out, struct memplan_error *err);

/** One stage's dump, asked for in options. *text_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_report_dump(const struct memplan_report *report,
                                                    enum memplan_stage stage, char **text_out,
                                                    struct memplan_error *err);

MEMPLAN_API void memplan_report_free(struct memplan_report *report); /**< NULL is accepted */

/* ---- identities --------------------------------------------------------------------------------
 * Which run a plan is, so that what became of one run can be told of another.
 */

#define MEMPLAN_IDENTITY_VERSION 1 /**< of the canonical form; hashes of two versions differ */
#define MEMPLAN_IDENTITY_TEXT    33
#define MEMPLAN_MOST_DEMANDS     8

/** A number that asks for more memory the larger it is, but for rounding and for holes in the
 * allocator (docs/ledger.md); two ends where the plan leaves it open. */
struct memplan_demand {
    int64_t low, high;
};

/**
 * Set size to sizeof(struct memplan_identity) first: the library writes at most that many bytes.
 *
 * The hashes are the first 128 bits of SHA-256 over the plan's canonical form, as hexadecimal
 * digits: every field by its path and in one spelling, defaults like values that are spelled out;
 * without names, remarks, observations and host. A plan that leaves fields open has the hash of the
 * set of its combinations.
 */
struct memplan_identity {
    size_t size;
    char run[MEMPLAN_IDENTITY_TEXT];   /**< model, training, parallelism, software, framework */
    char setup[MEMPLAN_IDENTITY_TEXT]; /**< device and software */
    char kin[MEMPLAN_IDENTITY_TEXT];   /**< both, without demands and the card's name and memory */
    char reserved[5];                  /**< 0 */
    struct memplan_demand demands[MEMPLAN_MOST_DEMANDS]; /**< see memplan_demand_field */
    uint64_t card_low_bytes, card_high_bytes; /**< the card's less other processes'; 0: no card */
};

/** Computes the identity of a plan that memplan_plan_check accepts. */
MEMPLAN_API enum memplan_status memplan_plan_identity(const struct memplan_plan *plan,
                                                      struct memplan_identity *identity_out,
                                                      struct memplan_error *err);

/** Path of the field whose value demands[i] holds: "training.sequence_length". NULL past the last
 * one. */
MEMPLAN_API const char *memplan_demand_field(size_t i);

/** 1: a plan is kin to another, asks for at least as much in every demand, and has a card with at
 * most as much memory: where the other one ran out of memory, so will this one. */
MEMPLAN_API int memplan_identity_dominates(const struct memplan_identity *plan,
                                           const struct memplan_identity *other);

/* ---- calibration: what was measured corrects what is predicted ---- */

/** Appends observations (docs/plan.md) to the plan's own: a JSON list of them, or an object that
 * has one as "observations". On failure the plan is as before. */
MEMPLAN_API enum memplan_status memplan_plan_add_readings(struct memplan_plan *plan,
                                                          const void *json, size_t len,
                                                          const char *source,
                                                          struct memplan_error *err);

/**
 * Corrections of the plan's figures from its observations, under priors: docs/calibrate.md. risk is
 * that of struct memplan_options. A reading that no correction explains is named and not used.
 * *calibration_out is new; untouched on failure. MEMPLAN_ERR_VALUE without any observation.
 */
MEMPLAN_API enum memplan_status memplan_calibrate(const struct memplan_plan *plan, double risk,
                                                  struct memplan_calibration **calibration_out,
                                                  struct memplan_error *err);

/** Reads a calibration file. *calibration_out is new; untouched on failure. */
MEMPLAN_API enum memplan_status memplan_calibration_load(
    const void *json, size_t len, const char *source, struct memplan_calibration **calibration_out,
    struct memplan_error *err);

/** The file, and all that was found (docs/calibrate.md). *json_out is new: free with memplan_free.
 */
MEMPLAN_API enum memplan_status memplan_calibration_to_json(
    const struct memplan_calibration *calibration, char **json_out, struct memplan_error *err);

MEMPLAN_API void memplan_calibration_free(
    struct memplan_calibration *calibration); /**< NULL is accepted */

/** One row of a reference list. All text is static. */
struct memplan_field {
    const char *path;     /**< "training.sequence_length" */
    const char *type;     /**< "integer", "number", "string", "boolean", "bytes" */
    const char *range;    /**< "1 .. 1073741824", or the words that are accepted */
    const char *fallback; /**< default as JSON text; "" when the field is needed */
    const char *help;     /**< one sentence */
};

/* ---- the boundary of a field ------------------------------------------------------------------
 */

/** What to look for. Set size to sizeof(struct memplan_search_options) and the rest to 0 for the
 * defaults. */
struct memplan_search_options {
    size_t size;
    const char *field; /**< as memplan_field_find takes it; one that holds a number */
    int64_t from, to;  /**< inclusive, where has_from and has_to are 1; else the field's own */
    uint32_t has_from, has_to;
    int64_t multiple_of;      /**< 0: 1 MiB of sizes, 128 of training.sequence_length, else 1 */
    uint32_t wants_least;     /**< 1: the least value that fits, in place of the largest */
    uint32_t ignore_readings; /**< as in memplan_options */
    double risk;              /**< as in memplan_options */
};

/** How what is allocated depends on the field. Values are stable. */
enum memplan_trend {
    MEMPLAN_TREND_LEVEL = 0,
    MEMPLAN_TREND_RISES,
    MEMPLAN_TREND_FALLS,
    MEMPLAN_TREND_TURNS,
};

/** What was found. Set size to sizeof(struct memplan_search_result) first. */
struct memplan_search_result {
    size_t size;
    struct memplan_field field;
    int64_t from, to, multiple_of;
    enum memplan_verdict verdict; /**< FITS: value is found; DOES_NOT_FIT: none; CANNOT_TELL */
    enum memplan_trend trend;
    int64_t value;   /**< the outermost that fits */
    int64_t beyond;  /**< the next possible one, which does not; where has_beyond is 1 */
    int64_t cut_at;  /**< where is_cut is 1: nothing above was tried */
    int64_t hole[3]; /**< where has_hole is 1: the second is judged otherwise than its neighbours */
    int64_t turn[3]; /**< with MEMPLAN_TREND_TURNS: values around a turn */
    uint32_t has_beyond, is_cut, is_spent, has_hole;
    uint32_t points;        /**< values judged: memplan_search_point */
    uint32_t skipped;       /**< values looked at that are no possible run */
    int64_t skipped_value;  /**< the first of them */
    char skipped_text[256]; /**< and why */
    char reason[256];       /**< with CANNOT_TELL: why; else empty */
};

/** One value of a field and what it leads to. Set size to sizeof(struct memplan_point) first. */
struct memplan_point {
    size_t size;
    int64_t value;
    char text[256]; /**< why there are no figures; else empty */
    struct memplan_summary
        summary; /**< needs: of value and beyond only; all 0 where text says why */
};

struct memplan_search; /**< result of one search; immutable */

/**
 * Looks for the largest (or least) value of a field with which the plan fits, and proves it by the
 * next possible value, which does not. Coarse values over the whole range tell whether there is
 * one boundary; that of the outermost value is reported. Observations keep the plan's own value.
 * plan is not changed. *search_out is new; untouched on failure.
 */
MEMPLAN_API enum memplan_status memplan_search(const struct memplan_plan *plan,
                                               const struct memplan_search_options *options,
                                               struct memplan_search **search_out,
                                               struct memplan_error *err);

MEMPLAN_API enum memplan_status memplan_search_describe(const struct memplan_search *search,
                                                        struct memplan_search_result *result,
                                                        struct memplan_error *err);

/** The i-th value that was judged, from the least up; 0 past the last one. */
MEMPLAN_API int memplan_search_point(const struct memplan_search *search, size_t i,
                                     struct memplan_point *point_out);

MEMPLAN_API void memplan_search_free(struct memplan_search *search); /**< NULL is accepted */

/** The i-th field of a plan; returns 0 past the last one. */
MEMPLAN_API int memplan_plan_field(size_t i, struct memplan_field *field_out);

/** The field of a name: a dotted path, or the last names of one. Of several that end so, it is the
 * one in the fewest sections: "sequence_length" is training.sequence_length. */
MEMPLAN_API enum memplan_status memplan_field_find(const char *name,
                                                   struct memplan_field *field_out,
                                                   struct memplan_error *err);

/** Writes the plan's value of a field into each of its observations that does not say its own: they
 * were read with it, and stay true when the field is changed. field is a whole path. */
MEMPLAN_API enum memplan_status memplan_plan_pin_readings(struct memplan_plan *plan,
                                                          const char *field,
                                                          struct memplan_error *err);

/** Reference lists. Values are stable; new ones are added at the end. */
enum memplan_list {
    MEMPLAN_LIST_FAMILIES = 0, /**< values of model.model_type */
    MEMPLAN_LIST_OPTIMIZERS,   /**< of training.optimizer.name */
    MEMPLAN_LIST_ATTENTION,    /**< of training.attention */
    MEMPLAN_LIST_LOSSES,       /**< of training.loss.name */
};

/** One word that is modelled. All text is static. */
struct memplan_entry {
    const char *name;
    const char *help; /**< one line, no full stop */
};

/** The i-th entry of a list; returns 0 past the last one, and for a list that does not exist. */
MEMPLAN_API int memplan_list_entry(enum memplan_list list, size_t i,
                                   struct memplan_entry *entry_out);

/** How a figure is known. Values are stable. */
enum memplan_known {
    MEMPLAN_NOT_KNOWN = 0, /**< the figure is 0 */
    MEMPLAN_RECALLED = 1,  /**< widely quoted, not checked against a source */
    MEMPLAN_DERIVED = 2,   /**< from a sibling card or a rule; the notes say which */
    MEMPLAN_MEASURED = 3,  /**< read from public logs or screens */
};

/** A card or MIG instance of the card table. Set size to sizeof(struct memplan_gpu) first: the
 * library writes at most that many bytes. All text is static. */
struct memplan_gpu {
    size_t size;
    const char *name;            /**< as PyTorch and nvidia-smi print it */
    const char *aliases;         /**< further names, separated by '|'; may be empty */
    const char *arch;            /**< "sm_90", "gfx942" */
    uint32_t is_mig_instance;    /**< 1: a slice of a card */
    uint32_t compute_capability; /**< ten times CUDA's; 0: not NVIDIA's */
    uint32_t multiprocessors;    /**< 0: not known */
    uint32_t nominal_gb;         /**< as the maker sells it */
    uint64_t total_bytes;        /**< as PyTorch sees it under Linux */
    uint64_t total_low_bytes, total_high_bytes; /**< figures seen, by driver and system */
    enum memplan_known total_known;
    enum memplan_known smi_total_known;
    uint64_t smi_total_bytes; /**< as nvidia-smi prints it */
    uint64_t context_low_bytes, context_expected_bytes, context_high_bytes; /**< 0: no figure */
    const char *source;                                                     /**< of the totals */
    const char *context_source;                                             /**< empty: no figure */
    const char *notes;                                                      /**< may be empty */
};

/** The i-th row of the card table; returns 0 past the last one. */
MEMPLAN_API int memplan_gpu_entry(size_t i, struct memplan_gpu *gpu_out);

/** The card of that name, as device.gpu finds it: by alias or part of a name, whatever its case and
 * punctuation. On failure err names cards that are near. */
MEMPLAN_API enum memplan_status memplan_gpu_find(const char *name, struct memplan_gpu *gpu_out,
                                                 struct memplan_error *err);

/** What a library takes of a card, inside or outside of PyTorch's allocator. Set size to
 * sizeof(struct memplan_library) first. All text is static. */
struct memplan_library {
    size_t size;
    const char *name;
    const char *where;              /**< "PyTorch's allocator", "outside" */
    const char *counted;            /**< the figure that has it, or how to give it */
    uint32_t from, below;           /**< compute capability, ten times CUDA's; below 0: no end */
    uint64_t low_bytes, high_bytes; /**< both 0: the library decides */
    const char *source;
};

/** The i-th row of that table; returns 0 past the last one. */
MEMPLAN_API int memplan_library_entry(size_t i, struct memplan_library *library_out);

/** The JSON schema of a plan. *json_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_plan_schema(char **json_out, struct memplan_error *err);

/* ---- recorded traces: what the allocator answers under other settings ---- */

struct memplan_trace;  /**< recorded requests and releases; immutable */
struct memplan_replay; /**< what a card and its settings answer to them; immutable */

/**
 * Reads a recorded trace from len bytes of JSON (docs/replay.md): a case, or a memory snapshot of
 * PyTorch. source names the input in messages. *trace_out is new; untouched on failure.
 * Limits: 1 GiB of input, 16 streams, 255 private pools.
 */
MEMPLAN_API enum memplan_status memplan_trace_load(const void *json, size_t len, const char *source,
                                                   struct memplan_trace **trace_out,
                                                   struct memplan_error *err);

MEMPLAN_API void memplan_trace_free(struct memplan_trace *trace); /**< NULL is accepted */

/** What a trace says of itself. Set size to sizeof(struct memplan_trace_info) first. */
struct memplan_trace_info {
    size_t size;
    uint64_t events;
    uint64_t total_bytes;    /**< of the card; 0: not known */
    uint32_t has_history;    /**< 1: what the allocator did was recorded too */
    uint64_t reserved_peak;  /**< then, bytes */
    uint64_t ooms;           /**< then, requests that failed */
    uint64_t initial_blocks; /**< then, held before the first event */
    const char *conf;        /**< PYTORCH_CUDA_ALLOC_CONF; "": not set. Borrowed */
};

MEMPLAN_API enum memplan_status memplan_trace_describe(const struct memplan_trace *trace,
                                                       struct memplan_trace_info *info,
                                                       struct memplan_error *err);

/** What differs from the trace's own card and settings. Set size to sizeof(struct
 * memplan_replay_options) and the rest to 0 for none. */
struct memplan_replay_options {
    size_t size;
    const char *conf;     /**< PYTORCH_CUDA_ALLOC_CONF; NULL: the trace's */
    const char *pytorch;  /**< release whose settings these are, "2.8.0"; NULL: the newest known */
    double fraction;      /**< of set_per_process_memory_fraction; 0: the trace's */
    uint64_t total_bytes; /**< of the card; 0: the trace's */
    uint64_t context_bytes; /**< taken before the first request; 0: the trace's */
    uint64_t until;         /**< how many events to run; 0: all */
};

/** Runs a trace through the caching allocator; it goes on after a request that fails. *replay_out
 * is new; untouched on failure. Settings that PyTorch refuses give MEMPLAN_ERR_VALUE. */
MEMPLAN_API enum memplan_status memplan_trace_replay(const struct memplan_trace *trace,
                                                     const struct memplan_replay_options *options,
                                                     struct memplan_replay **replay_out,
                                                     struct memplan_error *err);

/** Counters after the last event, as torch.cuda.memory_stats has them; bytes unless it says
 * otherwise. Set size to sizeof(struct memplan_counters) first. */
struct memplan_counters {
    size_t size;
    uint64_t allocated, reserved, active, requested, inactive_split;
    uint64_t peak_allocated, peak_reserved, peak_active;
    uint64_t blocks, segments; /**< counts */
    uint64_t retries, ooms;    /**< counts: flush and retry, failed requests */
    uint64_t rejections;       /**< count: refused before the card was asked */
    uint64_t first_oom;        /**< index of the event; meaningful when a request failed */
    uint64_t peak_event;       /**< index of the event after which reserved was highest */
};

MEMPLAN_API enum memplan_status memplan_replay_counters(const struct memplan_replay *replay,
                                                        struct memplan_counters *counters,
                                                        struct memplan_error *err);

/** Counters, marks, failures, changes of reserved bytes, segments: the object "result" of a case,
 * on one line. *json_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_replay_to_json(const struct memplan_replay *replay,
                                                       char **json_out, struct memplan_error *err);

/** Segments and blocks after the last event, drawn. *svg_out is new: free with memplan_free. */
MEMPLAN_API enum memplan_status memplan_replay_to_svg(const struct memplan_replay *replay,
                                                      char **svg_out, struct memplan_error *err);

MEMPLAN_API void memplan_replay_free(struct memplan_replay *replay); /**< NULL is accepted */

/* ---- packing -----------------------------------------------------------------------------------
 * What training code makes of samples of given lengths: packs, batches, steps of an epoch.
 */

struct memplan_packs; /**< the packs of one rule at one length; immutable */

/** How to pack. Set size to sizeof(struct memplan_pack_options) and the rest to 0 for the defaults.
 */
struct memplan_pack_options {
    size_t size;
    const char *rule;          /**< a name of memplan_pack_rule_entry */
    uint64_t sequence_length;  /**< tokens of one pack, 1 .. 16777216 */
    uint64_t world_size;       /**< data-parallel ranks; 0: 1 */
    uint64_t micro_batch_size; /**< rows of one rank's batch; 0: 1 */
    uint64_t accumulation;     /**< micro batches of one optimizer step; 0: 1 */
    uint64_t map_batch;        /**< samples that TRL's rules pack at once; 0: 1000 */
    uint64_t multiple_of;      /**< padded rows are a multiple of so many tokens; 0: 1 */
    uint64_t seed;             /**< of the order in which samples or packs are drawn */
    uint64_t shuffle;          /**< 1: the samples' own order is not known: shuffle them first */
};

/** Packs count samples of the given lengths (tokens, at most 1073741824 each; 268435456 samples).
 * *packs_out is new; untouched on failure. */
MEMPLAN_API enum memplan_status memplan_pack(const uint32_t *lengths, size_t count,
                                             const struct memplan_pack_options *options,
                                             struct memplan_packs **packs_out,
                                             struct memplan_error *err);

/** Sums over one epoch and all ranks. tokens + added = packed + truncated + dropped + target. Set
 * size to sizeof(struct memplan_pack_summary) first. */
struct memplan_pack_summary {
    size_t size;
    uint64_t samples, tokens;                     /**< that were given */
    uint64_t truncated_samples, truncated_tokens; /**< cut at the length; tokens that are lost */
    uint64_t dropped_samples, dropped_tokens;     /**< in no pack */
    uint64_t split_samples;                       /**< that go on in another pack */
    uint64_t added_tokens;                        /**< put between samples */
    uint64_t target_tokens;                       /**< that are labels only */
    uint64_t packs, packed_tokens;
    uint64_t pieces;                       /**< samples in packs; one that is split counts again */
    uint64_t fewest_samples, most_samples; /**< of one pack */
    uint64_t batches;                      /**< of all ranks */
    uint64_t batch_tokens, padding_tokens; /**< of input_ids, padding included; padding alone */
    uint64_t shortest, longest;            /**< tokens of one row of a batch */
    uint64_t steps;                        /**< optimizer steps of one epoch */
};

MEMPLAN_API enum memplan_status memplan_packs_summary(const struct memplan_packs *packs,
                                                      struct memplan_pack_summary *summary,
                                                      struct memplan_error *err);

/** The i-th pack, in the order in which they are made; returns 0 past the last one. */
MEMPLAN_API int memplan_packs_entry(const struct memplan_packs *packs, size_t i,
                                    uint32_t *tokens_out, uint32_t *samples_out);

/** Batches whose rows are of one length. Frozen. */
struct memplan_pack_length {
    uint64_t length, rows, count;
};

/** The i-th length of batches, ascending; returns 0 past the last one. */
MEMPLAN_API int memplan_packs_length(const struct memplan_packs *packs, size_t i,
                                     struct memplan_pack_length *length_out);

MEMPLAN_API void memplan_packs_free(struct memplan_packs *packs); /**< NULL is accepted */

/** One packing rule. All text is static. */
struct memplan_pack_rule {
    const char *name;
    const char *help;   /**< one line, no full stop */
    const char *source; /**< the code and the release that it was read from */
};

/** The i-th rule; returns 0 past the last one. */
MEMPLAN_API int memplan_pack_rule_entry(size_t i, struct memplan_pack_rule *rule_out);

/* ---- configurations of trainers ----------------------------------------------------------------
 * A plan from what a run is launched with: a model's config.json, PEFT's adapter_config.json,
 * TrainingArguments, configurations of DeepSpeed, accelerate, FSDP, axolotl and LLaMA-Factory, a
 * job script (docs/import.md). The caller reads the files; later ones go before earlier ones.
 */

struct memplan_import; /**< what was found in some files; immutable */

/** A file of at most 1 MiB. */
struct memplan_import_file {
    const char *name; /**< for messages; borrowed as long as the import lives */
    const void *bytes;
    size_t len;
};

/** What some bytes are: "plan", "DeepSpeed configuration", ...; static. NULL: not known, or not
 * well formed. */
MEMPLAN_API const char *memplan_import_format(const void *bytes, size_t len);

/** Reads files into one plan. *import_out is new; untouched on failure. err names file, line and
 * key. */
MEMPLAN_API enum memplan_status memplan_import_read(const struct memplan_import_file *files,
                                                    size_t count,
                                                    struct memplan_import **import_out,
                                                    struct memplan_error *err);

/** A file that another one names, such as the DeepSpeed configuration of a job script, found as the
 * caller sees fit. from: the file that names it; NULL: the command does. Returns 0 and fills
 * *file_out, whose name and bytes live as long as the import; any other value: it cannot be had. */
typedef int memplan_import_open(void *user, const char *from, const char *path,
                                struct memplan_import_file *file_out);

/** Begins with its size; the rest is 0 where it is not needed. */
struct memplan_import_options {
    size_t size;
    const char *const *words; /**< a command that starts a run, split as for execvp, read last */
    size_t word_count;
    const char *const *environment; /**< NAME=value that scripts may refer to; ends in NULL */
    memplan_import_open *open;      /**< NULL: files that are named are not read */
    void *user;
    const char *release; /**< of the trainer, where its defaults depend on it and no file says it */
};

/** The same with options, which may be NULL. There may be no file where there is a command. */
MEMPLAN_API enum memplan_status memplan_import_read_with(
    const struct memplan_import_file *files, size_t count,
    const struct memplan_import_options *options, struct memplan_import **import_out,
    struct memplan_error *err);

/** The plan as JSON, for memplan_plan_load; its fields are checked there. *json_out is new: free
 * with memplan_free. */
MEMPLAN_API enum memplan_status memplan_import_to_json(const struct memplan_import *import,
                                                       char **json_out, struct memplan_error *err);

/** The i-th sentence on what the plan cannot say, or which of two values was taken; NULL past the
 * last one. Borrowed. The plan holds them, too (imported). */
MEMPLAN_API const char *memplan_import_note(const struct memplan_import *import, size_t i);

/** Name of the model, where no config.json was among the files; NULL: none is needed or named.
 * Borrowed. */
MEMPLAN_API const char *memplan_import_model(const struct memplan_import *import);

MEMPLAN_API void memplan_import_free(struct memplan_import *import); /**< NULL is accepted */

/* ---- weights -----------------------------------------------------------------------------------
 * Headers of .safetensors files: names, formats and shapes of the tensors, without their data. The
 * caller reads 8 bytes and as many as they say (memplan_weights_header), of files of any size.
 */

struct memplan_weights; /**< headers of the files of one model; used by one thread at a time */

MEMPLAN_API enum memplan_status memplan_weights_new(struct memplan_weights **weights_out,
                                                    struct memplan_error *err);

/** Bytes from the beginning of a file on that memplan_weights_add needs, of the first 8 and the
 * size of the file; 8 where what they say cannot be, which memplan_weights_add then refuses. */
MEMPLAN_API size_t memplan_weights_header(const void *bytes, uint64_t file_bytes);

/** Adds one file: len bytes of its beginning. Its header is held against file_bytes. err names the
 * tensor and the byte. After a failure the set is of no use. */
MEMPLAN_API enum memplan_status memplan_weights_add(struct memplan_weights *weights,
                                                    const char *name, const void *bytes, size_t len,
                                                    uint64_t file_bytes, struct memplan_error *err);

/** Adds model.safetensors.index.json, of at most 64 MiB. */
MEMPLAN_API enum memplan_status memplan_weights_add_index(struct memplan_weights *weights,
                                                          const char *name, const void *json,
                                                          size_t len, struct memplan_error *err);

/** The i-th file that the index names, a plain name; NULL past the last one. Borrowed. */
MEMPLAN_API const char *memplan_weights_shard(const struct memplan_weights *weights, size_t i);

/** What was found as JSON, which memplan_import_read takes beside a config.json. *json_out is new:
 * free with memplan_free. Once, after all files. */
MEMPLAN_API enum memplan_status memplan_weights_to_json(struct memplan_weights *weights,
                                                        char **json_out, struct memplan_error *err);

MEMPLAN_API void memplan_weights_free(struct memplan_weights *weights); /**< NULL is accepted */

/* ---- logs --------------------------------------------------------------------------------------
 * Out-of-memory messages of PyTorch and of what it calls, read from the text of a run. The caller
 * feeds bytes as they come; memory does not grow with the log.
 *
 *     struct memplan_log_event event = {.size = sizeof(event)};
 *
 *     while ((len = read(fd, bytes, sizeof(bytes))) > 0 && !memplan_log_feed(log, bytes, len,
 * &err)) while (memplan_log_next(log, &event)) printf("line %llu: %s\n", (unsigned long
 * long)event.line, event.form); memplan_log_end(log, &err);          then memplan_log_next again,
 * for what was still open
 */

struct memplan_log; /**< reads one log; used by one thread at a time */

/** What failed. Values are stable; new ones are added at the end. */
enum memplan_log_kind {
    MEMPLAN_LOG_ALLOCATOR = 0, /**< a request to PyTorch's caching allocator */
    MEMPLAN_LOG_LIMIT,         /**< the allocator refused before it asked the driver */
    MEMPLAN_LOG_ASYNC,         /**< a request to the backend cudaMallocAsync */
    MEMPLAN_LOG_DRIVER,        /**< CUDA or HIP, outside the allocator */
    MEMPLAN_LOG_LIBRARY,       /**< cuBLAS, cuDNN and their like, for themselves */
    MEMPLAN_LOG_NCCL,          /**< NCCL's buffers */
    MEMPLAN_LOG_WARNING, /**< the driver refused; the allocator tried again, maybe with success */
};

/** What a message says of expandable segments. */
enum memplan_log_expandable {
    MEMPLAN_LOG_EXPANDABLE_UNKNOWN = 0,
    MEMPLAN_LOG_EXPANDABLE_ON,
};

/** A size as it was printed: rounded, so the true one lies in low .. high. Frozen. */
struct memplan_log_size {
    uint64_t bytes, low, high;
    uint32_t known;    /**< 0: the message does not say, the rest is 0 */
    uint32_t reserved; /**< 0 */
};

#define MEMPLAN_LOG_PROCESSES 16 /**< processes of one message that are kept */

/** Another process on the card; or this one, where a container hides its number. Frozen. */
struct memplan_log_process {
    uint32_t number; /**< 1 for the first one that the log names, and so on; 0: too many */
    uint32_t reserved;
    struct memplan_log_size in_use;
};

/** One message. Set size to sizeof(struct memplan_log_event) first: the library writes at most that
 * many bytes. Text is static. */
struct memplan_log_event {
    size_t size;
    uint64_t line;   /**< 1-based; the line in which the message starts */
    uint64_t offset; /**< bytes from the start of the log */
    enum memplan_log_kind kind;
    enum memplan_log_expandable expandable;
    int32_t rank, local_rank;          /**< as the line's prefix says; -1 unknown */
    int32_t gpu;                       /**< the process's own count; -1 unknown */
    uint32_t cut;                      /**< 1: the text ends before the message does */
    const char *form;                  /**< "pytorch-2.4" */
    const char *releases;              /**< of PyTorch that print this form: "2.4 on"; "" unknown */
    const char *api;                   /**< "CUDA", "HIP", "" unknown */
    struct memplan_log_size requested; /**< tried to allocate: the segment, not the tensor */
    struct memplan_log_size total;     /**< of the card */
    struct memplan_log_size free;      /**< on the card, for every process */
    struct memplan_log_size allowed;   /**< limit of this process */
    struct memplan_log_size allocated; /**< by PyTorch, with the free blocks of private pools */
    struct memplan_log_size unallocated;   /**< reserved by PyTorch but unallocated */
    struct memplan_log_size reserved;      /**< both together */
    struct memplan_log_size private_pools; /**< free blocks inside private pools */
    struct memplan_log_size in_use;        /**< of this process, all that is not PyTorch's too */
    uint32_t process_count;
    uint32_t processes_left_out;
    struct memplan_log_process processes[MEMPLAN_LOG_PROCESSES];
};

/** One thing that follows from a message alone. */
struct memplan_log_finding {
    const char *name;             /**< static: "needs", "shortage", "fragmentation", ... */
    struct memplan_log_size size; /**< the figure; a lower bound has high UINT64_MAX */
    char text[384];               /**< one or two sentences */
};

/** *log_out is new; untouched on failure. */
MEMPLAN_API enum memplan_status memplan_log_new(struct memplan_log **log_out,
                                                struct memplan_error *err);

/** Reads len more bytes of any content. Messages that are complete wait for memplan_log_next; take
 * them before the next call, since they are kept until then. */
MEMPLAN_API enum memplan_status memplan_log_feed(struct memplan_log *log, const void *bytes,
                                                 size_t len, struct memplan_error *err);

/** There are no more bytes: what the last ones hold waits for memplan_log_next. */
MEMPLAN_API enum memplan_status memplan_log_end(struct memplan_log *log, struct memplan_error *err);

/** The next message, in the order of the log; 0 when none waits. */
MEMPLAN_API int memplan_log_next(struct memplan_log *log, struct memplan_log_event *event_out);

MEMPLAN_API void memplan_log_free(struct memplan_log *log); /**< NULL is accepted */

/** The i-th thing that follows from a message; 0 past the last one. */
MEMPLAN_API int memplan_log_find(const struct memplan_log_event *event, size_t i,
                                 struct memplan_log_finding *finding_out);

MEMPLAN_API const char *memplan_log_kind_name(enum memplan_log_kind kind); /**< "allocator" */

MEMPLAN_API const char *memplan_verdict_name(enum memplan_verdict verdict); /**< "does_not_fit" */
MEMPLAN_API const char *memplan_status_name(enum memplan_status status);
MEMPLAN_API const char *memplan_version(void); /**< version of the loaded library */
MEMPLAN_API void memplan_free(void *ptr);      /**< frees strings from this library */

#ifdef __cplusplus
}
#endif

#endif
