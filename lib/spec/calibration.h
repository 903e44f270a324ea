/* SPDX-License-Identifier: MIT */
/* What a calibration file says: corrections of a plan's parts, told from readings. Data only. */
#ifndef MPL_SPEC_CALIBRATION_H
#define MPL_SPEC_CALIBRATION_H

#include <memplan.h>
#include <stdbool.h>
#include <stdint.h>

#define MPL_CALIBRATION_LENGTH            "training.sequence_length"
#define MPL_CALIBRATION_MOST_TERMS        32
#define MPL_CALIBRATION_MOST_FIELDS       16
#define MPL_CALIBRATION_MOST_ALTERNATIVES 4096

enum mpl_term_kind {
    MPL_TERM_PART = 0,  /* a category and order of what lives at the peak */
    MPL_TERM_CONSTANT,  /* what is not modelled and does not grow */
    MPL_TERM_TOKENS,    /* what is not modelled and grows with the tokens of a micro-batch */
    MPL_TERM_ALLOCATOR, /* reserved over allocated */
    MPL_TERM_OUTSIDE,   /* context, NCCL and what else the card shows */
    MPL_TERM_KINDS,
};

struct mpl_calibration_term {
    enum mpl_term_kind kind;
    int category, order; /* of a part */
    double prior;        /* deviation: relative to the part, or to `bytes` */
    double bytes;        /* of a constant, of tokens at `tokens`, of outside */
    double tokens;
};

/** Of one combination of what the plan leaves open. */
struct mpl_calibration_alternative {
    char *set; /* its choices in words; owned */
    double weight;
    double value[MPL_CALIBRATION_MOST_TERMS]; /* in deviations of the prior */
    double covariance[MPL_CALIBRATION_MOST_TERMS][MPL_CALIBRATION_MOST_TERMS];
};

/** Where readings were: the span of a field. */
struct mpl_calibration_field {
    char path[64];
    double low, high;
};

struct mpl_calibration {
    char *json; /* the whole file; owned */
    char *plan; /* canonical JSON of the plan without what may differ; owned */
    uint32_t term_count, alternative_count, field_count;
    struct mpl_calibration_term terms[MPL_CALIBRATION_MOST_TERMS];
    struct mpl_calibration_alternative *alternatives; /* owned */
    struct mpl_calibration_field fields[MPL_CALIBRATION_MOST_FIELDS];
    double reserved_noise; /* of ln(reserved), beside the error of allocated */
};

struct mpl_spec;

/** Names the plan: fills calibration->plan, without what calibration->fields vary. */
enum memplan_status mpl_calibration_identify(const struct mpl_spec *spec,
                                             struct mpl_calibration *calibration,
                                             struct memplan_error *err);

/** MEMPLAN_ERR_VALUE when the calibration is of another plan; the message names the difference. */
enum memplan_status mpl_calibration_match(const struct mpl_spec *spec,
                                          const struct mpl_calibration *calibration,
                                          struct memplan_error *err);

/** Where the readings that were used lie: fills calibration->fields, the length first. */
void mpl_calibration_span(const struct mpl_spec *spec, const bool *is_used, double low_tokens,
                          double high_tokens, struct mpl_calibration *calibration);

/** Whether the plan lies outside of the readings in another field than the length. */
bool mpl_calibration_is_outside(const struct mpl_spec *spec,
                                const struct mpl_calibration *calibration);

void mpl_calibration_free(struct mpl_calibration *calibration); /* NULL is accepted */

#endif
