/* SPDX-License-Identifier: MIT */
/* TABLE: notes, one row per code. */
#include "table/note.h"

#include <stddef.h>

static const struct mpl_note_row note_table[MPL_NOTE_COUNT] = {
    [MPL_NOTE_DEFAULT_TAKEN] = {"N001", "default taken",
                                "The plan leaves a field out that changes the answer, and the "
                                "default of the framework was "
                                "taken. Write the field into the plan to be sure."},
    [MPL_NOTE_NOT_MODELLED] =
        {"N002", "not modelled",
         "The plan asks for something that is known to exist and whose memory is not computed. The "
         "figures are without it, and the verdict is \"cannot tell\" where it matters."},
    [MPL_NOTE_NO_DEVICE] = {"N003", "no device",
                            "The plan names no card and gives no total_bytes, so there is a "
                            "prediction and no verdict. "
                            "Set device.gpu, or device.total_bytes."},
    [MPL_NOTE_DEVICE_FIRST_OF_SEVERAL] =
        {"N004", "several cards of that name",
         "The name in device.gpu is part of the names of several cards with the same memory, and "
         "the first one of the card table was taken. Their power and clocks differ, their memory "
         "does not."},
    [MPL_NOTE_DEVICE_TOTAL_NOT_MEASURED] =
        {"N005", "card's memory not measured",
         "What PyTorch sees as the total of this card was derived from a sibling or a rule, or is "
         "a "
         "figure that many quote; nobody's log with it was read. Give device.total_bytes as "
         "torch.cuda.mem_get_info()[1] prints it."},
    [MPL_NOTE_DEVICE_TOTAL_VARIES] =
        {"N006", "card's memory differs by driver",
         "Different totals were seen for this card, by driver or operating system. Give "
         "device.total_bytes as torch.cuda.mem_get_info()[1] prints it."},
    [MPL_NOTE_CONTEXT_FROM_TABLE] =
        {"N007", "CUDA context from the table",
         "The CUDA context and the loaded kernels take memory that PyTorch does not count. The "
         "card "
         "table's range was used. The figure of a run is what nvidia-smi shows for the process "
         "minus torch.cuda.memory_reserved(); give it as device.context_bytes."},
    [MPL_NOTE_CONTEXT_NOT_KNOWN] =
        {"N008", "CUDA context not known",
         "The card table has no figure for the context of this card, and the plan gives none. Give "
         "device.context_bytes."},
    [MPL_NOTE_NCCL_FROM_TABLE] =
        {"N009", "NCCL buffers from the table",
         "NCCL's buffers lie outside PyTorch's allocator. The range is per communicator: by "
         "the link (PCIe, NVLink, network), its channels and NCCL's release; each process group "
         "that is talked over has one. Give device.nccl_bytes when it was measured."},
    [MPL_NOTE_READING_UNIT_OPEN] =
        {"N010", "unit of a reading open",
         "A reading is written in GB, which people use for 1e9 bytes and for 2^30. Both were tried "
         "against the prediction. Write GiB, or bytes, to settle it."},
    [MPL_NOTE_READING_METRIC_OPEN] =
        {"N011", "quantity of a reading open",
         "A reading does not say whether it is allocated, reserved or device memory. Each was "
         "tried "
         "against the prediction. Set metric in the observation to settle it."},
    [MPL_NOTE_ALTERNATIVE_EXCLUDED] =
        {"N012", "alternative excluded by readings",
         "The plan leaves something open, and the readings contradict one of the alternatives; it "
         "has no part in the verdict."},
    [MPL_NOTE_READINGS_CONTRADICT] =
        {"N013", "readings contradict every alternative",
         "No alternative of the plan agrees with the readings. Either a reading was taken under "
         "other conditions, or the plan differs from what ran."},
    [MPL_NOTE_FIELD_IGNORED] = {"N014", "field without effect",
                                "The plan sets a field that has no effect in this set-up."},
    [MPL_NOTE_VERSION_UNTESTED] =
        {"N015", "version not compared",
         "Predictions were not compared with runs of this version; a release may allocate "
         "differently. The interval does not count that."},
    [MPL_NOTE_FAMILY_ASSUMED] =
        {"N016", "family assumed",
         "The model's own family is not known or not modelled, and model.assume (--assume) names "
         "another to read it as. The figures are those of a model of that family with these "
         "sizes; how far the two differ is not known."},
    [MPL_NOTE_FRAMEWORK_CODE] =
        {"N017", "framework's own model code",
         "The framework has code of its own for this model, and the figures are those of "
         "transformers' code with these settings. docs/accuracy.md says how far the two were apart "
         "in recorded steps."},
    [MPL_NOTE_IMPORTED] = {"N018", "said by a configuration",
                           "The plan was made by memplan import. A key of a configuration changes "
                           "memory and no field of a plan describes it, or is not known, or two "
                           "configurations contradict each other. The figures are without it."},
    [MPL_NOTE_READINGS_DISAGREE] =
        {"N019", "readings contradict each other",
         "A run ran out of memory at a length below one that ran. Something else differed: other "
         "processes on the card, other software, a longer sample. That failure makes no verdict "
         "more cautious; find out what it was and take out the reading that is not of this run."},
};

const struct mpl_note_row *mpl_note_row(enum mpl_note_code note)
{
    return note > MPL_NOTE_NONE && note < MPL_NOTE_COUNT ? &note_table[note] : NULL;
}

enum mpl_note_code mpl_note_from_code(const char *code)
{
    unsigned number = 0;

    if (code[0] != 'N' && code[0] != 'n')
        return MPL_NOTE_NONE;
    for (size_t i = 1; i <= 3; i++) {
        if (code[i] < '0' || code[i] > '9')
            return MPL_NOTE_NONE;
        number = number * 10 + (unsigned)(code[i] - '0');
    }
    return code[4] == '\0' && number < MPL_NOTE_COUNT ? (enum mpl_note_code)number : MPL_NOTE_NONE;
}
