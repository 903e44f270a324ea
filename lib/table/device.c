/* SPDX-License-Identifier: MIT */
/* TABLE: GPUs and CUDA contexts, all with their sources. */
#include "table/device.h"

/*
 * Context and loaded kernels of one training process, without NCCL. Rule for every row: low is the
 * smallest figure of a process that trained, or a bare context plus 100 MiB; high is the largest
 * figure seen or the planning value, or a bare context plus 300 MiB (a training step loads 100 to
 * 300 MiB of cuBLAS, cuDNN, attention and Triton kernels lazily); expected is the figure of a
 * training process, else the planning value between the two. Lazy loading (CUDA 11.7 and later) is
 * assumed: CUDA_MODULE_LOADING=EAGER about doubles a context. One card differs by up to 150 MiB
 * with the versions of PyTorch, CUDA and the driver.
 */
#define MIB(low, expected, high) (low) * MPL_MIB, (expected)*MPL_MIB, (high)*MPL_MIB

static const struct mpl_range context_small = {
    MIB(200, 375, 550),
    "consumer and workstation cards of 8 to 24 GB: bare context 100 to 250 MiB (107 on an RTX 4060 "
    "Ti, 222 on a 16 GB Blackwell), and 100 to 300 MiB of kernels"};
static const struct mpl_range context_t4 = {
    MIB(125, 200, 450), "T4: 125 to 198 MiB in inference, out-of-memory messages; training adds "
                        "100 to 300 MiB of kernels"};
static const struct mpl_range context_v100 = {
    MIB(380, 390, 400), "V100 32GB: 380 to 400 MiB in training, out-of-memory messages"};
static const struct mpl_range context_a10_l4 = {
    MIB(210, 350, 510), "L4: 210 MiB while weights load, out-of-memory message; training adds 100 "
                        "to 300 MiB of kernels"};
static const struct mpl_range context_a100 = {
    MIB(480, 550, 780), "A100: 414 to 418 MiB bare, 480 MiB with one kernel and lazy loading "
                        "(ml-engineering book); training adds 100 to 300 MiB of kernels"};
static const struct mpl_range context_h100 = {
    MIB(616, 700, 832), "H100 80GB: 516 to 532 MiB fresh or idle, public logs; training adds 100 "
                        "to 300 MiB of kernels"};
static const struct mpl_range context_h100_nvl = {
    MIB(700, 770, 832), "H100 NVL: 770 MiB in training, two runs, out-of-memory messages"};
static const struct mpl_range context_h20_gh200 = {
    MIB(510, 540, 700), "95 GiB Hopper: 510 to 540 MiB in training or loading, out-of-memory "
                        "messages; planning value 700"};
static const struct mpl_range context_h200 = {
    MIB(630, 700, 830), "H200: 530 MiB with one kernel (ml-engineering book); training adds 100 to "
                        "300 MiB of kernels"};
static const struct mpl_range context_b200 = {
    MIB(710, 850, 1010), "B200: 710 MiB with elementwise kernels forward and backward "
                         "(ml-engineering book); training adds up to 300 MiB of kernels"};
static const struct mpl_range context_b300 = {
    MIB(718, 850, 1040), "B300: 618 MiB for another process, GB300: 740 MiB with one kernel "
                         "(ml-engineering book); training adds 100 to 300 MiB of kernels"};
static const struct mpl_range context_rtx_3090_4090 = {
    MIB(470, 550, 580), "RTX 3090 and 4090: 384 to 458 MiB fresh, 470 MiB in training, 580 MiB in "
                        "serving, public logs"};
static const struct mpl_range context_rtx_5090 = {
    MIB(480, 550, 650), "RTX 5090: 480 to 500 MiB in training, 650 MiB in serving, out-of-memory "
                        "messages"};
static const struct mpl_range context_l40s = {
    MIB(520, 560, 600), "L40S: 520 MiB in training, out-of-memory messages; planning value 600"};
static const struct mpl_range context_rtx_pro_6000 = {
    MIB(600, 690, 750), "RTX PRO 6000: 555 MiB bare, 690 MiB in training of a language model, "
                        "public logs; planning value 750"};

#define TOTAL(mib, low_mib, high_mib, status)                                                      \
    .total_bytes = (mib)*MPL_MIB, .total_low_bytes = (low_mib)*MPL_MIB,                            \
    .total_high_bytes = (high_mib)*MPL_MIB, .total_status = (status)
#define SMI(mib, status) .smi_total_bytes = (mib)*MPL_MIB, .smi_status = (status)

static const struct mpl_device_row device_table[] = {
#include "table/device_table.inc"
};

const struct mpl_device_row *mpl_device_at(size_t i)
{
    return i < sizeof(device_table) / sizeof(device_table[0]) ? &device_table[i] : NULL;
}
