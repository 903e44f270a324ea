/* SPDX-License-Identifier: MIT */
/* The public entry points to the card table. */
#include <memplan.h>

#include <string.h>

#include "base/fail.h"
#include "table/device.h"
#include "table/outside.h"

_Static_assert((int)MEMPLAN_NOT_KNOWN == (int)MPL_NOT_KNOWN &&
                   (int)MEMPLAN_RECALLED == (int)MPL_RECALLED &&
                   (int)MEMPLAN_DERIVED == (int)MPL_DERIVED &&
                   (int)MEMPLAN_MEASURED == (int)MPL_MEASURED,
               "values of a figure's status");

static void write_row(const struct mpl_device_row *row, struct memplan_gpu *gpu_out)
{
    struct memplan_gpu own = {
        .name = row->name,
        .aliases = row->aliases ? row->aliases : "",
        .arch = row->arch,
        .is_mig_instance = row->kind == MPL_DEVICE_SLICE,
        .compute_capability = row->compute_capability,
        .multiprocessors = row->multiprocessors,
        .nominal_gb = row->nominal_gb,
        .total_bytes = row->total_bytes,
        .total_low_bytes = row->total_low_bytes,
        .total_high_bytes = row->total_high_bytes,
        .total_known = (enum memplan_known)row->total_status,
        .smi_total_known = (enum memplan_known)row->smi_status,
        .smi_total_bytes = row->smi_total_bytes,
        .source = row->source,
        .context_source = "",
        .notes = row->notes,
    };
    const size_t size = gpu_out->size < sizeof(own) ? gpu_out->size : sizeof(own);

    own.size = size;
    if (row->context) {
        own.context_low_bytes = row->context->low_bytes;
        own.context_expected_bytes = row->context->expected_bytes;
        own.context_high_bytes = row->context->high_bytes;
        own.context_source = row->context->source;
    }
    if (gpu_out->size > sizeof(own))
        memset((char *)gpu_out + sizeof(own), 0, gpu_out->size - sizeof(own));
    memcpy(gpu_out, &own, size);
}

int memplan_gpu_entry(size_t i, struct memplan_gpu *gpu_out)
{
    const struct mpl_device_row *row = gpu_out ? mpl_device_at(i) : NULL;

    if (row)
        write_row(row, gpu_out);
    return row != NULL;
}

enum memplan_status memplan_gpu_find(const char *name, struct memplan_gpu *gpu_out,
                                     struct memplan_error *err)
{
    const struct mpl_device_row *row;
    enum mpl_device_match match;
    char remark[256];

    mpl_fail_clear(err);
    if (!name || !gpu_out)
        return mpl_fail(err, MEMPLAN_ERR_ARG, NULL, "%s must not be NULL",
                        name ? "gpu_out" : "name");
    row = mpl_device_find(name, &match, remark, sizeof(remark));
    if (!row)
        return mpl_device_fail(name, match, remark, err);
    write_row(row, gpu_out);
    return MEMPLAN_OK;
}

int memplan_library_entry(size_t i, struct memplan_library *library_out)
{
    const struct mpl_library_row *row = library_out ? mpl_library_at(i) : NULL;
    struct memplan_library own;
    size_t size;

    if (!row)
        return 0;
    own = (struct memplan_library){
        .name = row->name,
        .where = row->where,
        .counted = row->counted,
        .from = row->from,
        .below = row->below,
        .low_bytes = row->low_bytes,
        .high_bytes = row->high_bytes,
        .source = row->source,
    };
    size = library_out->size < sizeof(own) ? library_out->size : sizeof(own);
    own.size = size;
    if (library_out->size > sizeof(own))
        memset((char *)library_out + sizeof(own), 0, library_out->size - sizeof(own));
    memcpy(library_out, &own, size);
    return 1;
}
