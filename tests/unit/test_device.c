/* SPDX-License-Identifier: MIT */
/* The card table: every row is sound, names are understood, figures of single cards. */
#include "table/device.h"
#include "table/nccl.h"
#include "table/outside.h"

#include <string.h>

#include "test.h"

static int row_count(void)
{
    int n = 0;

    while (mpl_device_at((size_t)n))
        n++;
    return n;
}

START_TEST(row_is_sound)
{
    const struct mpl_device_row *row = mpl_device_at((size_t)_i);
    enum mpl_device_match match;
    char remark[256];

    ck_assert_msg(row->name[0] && row->source[0] && row->arch[0], "row %d: empty text", _i);
    ck_assert_msg(row->notes != NULL, "%s: no notes", row->name);
    ck_assert_msg(row->total_bytes >= 4 * MPL_GIB && row->total_bytes <= 1024 * MPL_GIB,
                  "%s: total out of range", row->name);
    ck_assert_msg(row->total_low_bytes <= row->total_bytes &&
                      row->total_bytes <= row->total_high_bytes,
                  "%s: total outside its own range", row->name);
    ck_assert_msg(row->total_status != MPL_NOT_KNOWN, "%s: total of no status", row->name);
    ck_assert_msg(!row->smi_total_bytes || row->total_bytes < row->smi_total_bytes,
                  "%s: PyTorch sees no less than nvidia-smi", row->name);
    ck_assert_msg((row->smi_total_bytes == 0) == (row->smi_status == MPL_NOT_KNOWN),
                  "%s: smi total and its status disagree", row->name);
    ck_assert_msg((row->compute_capability != 0) == !strncmp(row->arch, "sm_", 3),
                  "%s: compute capability and arch disagree", row->name);
    ck_assert_msg(!row->compute_capability ||
                      (uint32_t)atoi(row->arch + 3) == row->compute_capability,
                  "%s: compute capability and arch differ", row->name);
    ck_assert_msg(!row->compute_capability || row->context, "%s: no context", row->name);
    if (row->context)
        ck_assert_msg(row->context->low_bytes <= row->context->expected_bytes &&
                          row->context->expected_bytes <= row->context->high_bytes &&
                          row->context->high_bytes < 2 * MPL_GIB && row->context->source[0],
                      "%s: context range", row->name);
    ck_assert_msg(mpl_device_find(row->name, &match, remark, sizeof(remark)) == row &&
                      match == MPL_DEVICE_ONE,
                  "%s: does not find itself", row->name);
}
END_TEST

static const struct {
    const char *name, *row;
    enum mpl_device_match match;
} find_table[] = {
    {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", MPL_DEVICE_ONE},
    {"nvidia h100 nvl", "NVIDIA H100 NVL", MPL_DEVICE_ONE},
    {"NVIDIA H800", "NVIDIA H100 80GB HBM3", MPL_DEVICE_ONE},    /* alias, first of one */
    {"A800 80GB PCIe", "NVIDIA A100 80GB PCIe", MPL_DEVICE_ONE}, /* alias */
    {"H200", "NVIDIA H200", MPL_DEVICE_ONE},                     /* not the H200 NVL */
    {"L40", "NVIDIA L40", MPL_DEVICE_ONE},                       /* not the L40S */
    {"T4", "Tesla T4", MPL_DEVICE_ONE},
    {"RTX 4090", "NVIDIA GeForce RTX 4090", MPL_DEVICE_ONE},
    {"rtx4090", "NVIDIA GeForce RTX 4090", MPL_DEVICE_ONE},
    {"RTX-4090", "NVIDIA GeForce RTX 4090", MPL_DEVICE_ONE},
    {"5090", "NVIDIA GeForce RTX 5090", MPL_DEVICE_ONE},
    {"RTX 5060 Ti", "NVIDIA GeForce RTX 5060 Ti 16GB", MPL_DEVICE_ONE},
    {"RTX6000 Ada", "NVIDIA RTX 6000 Ada Generation", MPL_DEVICE_ONE},
    {"A100 40GB SXM", "NVIDIA A100-SXM4-40GB", MPL_DEVICE_ONE},
    {"A10G 24GB", "NVIDIA A10G", MPL_DEVICE_ONE},
    {"A6000 48GB", "NVIDIA RTX A6000", MPL_DEVICE_ONE},
    {"L4 24 GiB", "NVIDIA L4", MPL_DEVICE_ONE},
    {"MI300X", "AMD Instinct MI300X", MPL_DEVICE_ONE},
    {"A100 40GB MIG 3g.20gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", MPL_DEVICE_ONE},
    {"RTX PRO 6000 Blackwell", "NVIDIA RTX PRO 6000 Blackwell Server Edition", MPL_DEVICE_SEVERAL},
    {"A100 80G", "NVIDIA A100-SXM4-80GB", MPL_DEVICE_SEVERAL},
    {"H100", NULL, MPL_DEVICE_AMBIGUOUS},
    {"A100", NULL, MPL_DEVICE_AMBIGUOUS},
    {"H100 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", MPL_DEVICE_ONE},
    /* Profiles as nvidia-smi and PyTorch write them: compute instances share the memory of theirs,
     * media engines do not change it. */
    {"NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", MPL_DEVICE_ONE},
    {"H100 80GB HBM3 MIG 3G.40GB", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", MPL_DEVICE_ONE},
    {"H100 MIG 1g.10gb+me", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", MPL_DEVICE_ONE},
    {"MIG 1g.18gb", "NVIDIA H200 MIG 1g.18gb", MPL_DEVICE_ONE},
    {"3g.40gb", NULL, MPL_DEVICE_AMBIGUOUS},
    {"NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080 10GB", MPL_DEVICE_ONE},
    {"L40 S", "NVIDIA L40S", MPL_DEVICE_ONE},
    {"rtx_5090", "NVIDIA GeForce RTX 5090", MPL_DEVICE_ONE},
    {"h-100-nvl", "NVIDIA H100 NVL", MPL_DEVICE_ONE},
    {"RTX 4090 48GB", NULL, MPL_DEVICE_UNKNOWN}, /* a modified board is not the card */
    {"RTX 4091", NULL, MPL_DEVICE_UNKNOWN},
    {"Ascend 910B", NULL, MPL_DEVICE_UNKNOWN},
    {"NVIDIA", NULL, MPL_DEVICE_UNKNOWN},
    {"", NULL, MPL_DEVICE_UNKNOWN},
};

START_TEST(finds_by_name)
{
    enum mpl_device_match match;
    char remark[256];
    const struct mpl_device_row *row =
        mpl_device_find(find_table[_i].name, &match, remark, sizeof(remark));

    ck_assert_msg(match == find_table[_i].match, "\"%s\": match %d, \"%s\"", find_table[_i].name,
                  match, remark);
    if (find_table[_i].row)
        ck_assert_str_eq(row ? row->name : "(none)", find_table[_i].row);
    else
        ck_assert_ptr_null(row);
}
END_TEST

START_TEST(remark_says_which_was_taken)
{
    enum mpl_device_match match;
    char remark[256];

    mpl_device_find("RTX PRO 6000 Blackwell", &match, remark, sizeof(remark));
    ck_assert_str_eq(remark, "NVIDIA RTX PRO 6000 Blackwell Server Edition is taken, the first of "
                             "3 cards of that name with equal memory");
}
END_TEST

START_TEST(remark_lists_near_names)
{
    enum mpl_device_match match;
    char remark[256], small[12];

    mpl_device_find("RTX 4091", &match, remark, sizeof(remark));
    ck_assert_msg(strstr(remark, "NVIDIA GeForce RTX 4090"), "\"%s\"", remark);
    mpl_device_find("A100", &match, remark, sizeof(remark));
    ck_assert_str_eq(remark, "NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB, NVIDIA A100-SXM4-80GB, "
                             "NVIDIA A100 80GB PCIe");
    mpl_device_find("A100", &match, small, sizeof(small));
    ck_assert_str_eq(small, "NVIDIA A100"); /* cut, and ended */
    mpl_device_find("Ascend 910B", &match, remark, sizeof(remark));
    ck_assert_str_eq(remark, "");
    ck_assert_ptr_null(mpl_device_find("A100", &match, NULL, 0));
}
END_TEST

START_TEST(long_name_is_unknown)
{
    enum mpl_device_match match;
    char name[4000], remark[64];

    memset(name, 'a', sizeof(name) - 1);
    for (size_t i = 7; i < sizeof(name) - 1; i += 8)
        name[i] = ' ';
    name[sizeof(name) - 1] = '\0';
    ck_assert_ptr_null(mpl_device_find(name, &match, remark, sizeof(remark)));
    ck_assert_int_eq(match, MPL_DEVICE_UNKNOWN);
}
END_TEST

/* 97250 MiB is 94.97 GiB, as PyTorch prints it; 188 multiprocessors are the maker's figure. */
START_TEST(rtx_pro_6000_figures)
{
    enum mpl_device_match match;
    const struct mpl_device_row *row = mpl_device_find("RTX PRO 6000", &match, NULL, 0);

    ck_assert_ptr_nonnull(row);
    ck_assert_uint_eq(row->total_bytes, UINT64_C(101974016000));
    ck_assert_uint_eq(row->compute_capability, 120);
    ck_assert_uint_eq(row->multiprocessors, 188);
    ck_assert_int_eq(row->link, MPL_LINK_PCIE);
    ck_assert_uint_eq(row->context->low_bytes, 600 * MPL_MIB);
    ck_assert_uint_eq(row->context->high_bytes, 750 * MPL_MIB);
}
END_TEST

#define MIB(n) ((n)*MPL_MIB)

static const struct nccl_row {
    enum mpl_link link;
    uint32_t capability, ranks, nodes;
    uint16_t major, minor;
    uint64_t low, expected, high; /* MiB */
    uint32_t channels;
    uint64_t buffer; /* MiB */
} nccl_table[] = {
    /* A channel: 6 MiB of tables; a peer and back: 2 + 10 MiB. PCIe: 2, 4, 4 channels. */
    {MPL_LINK_PCIE, 120, 4, 1, 0, 0, 2 * 6, 4 * (6 + 24), 4 * (6 + 36), 0, 0},
    {MPL_LINK_PCIE, 120, 2, 1, 0, 0, 2 * 6, 4 * (6 + 12), 4 * (6 + 12), 0, 0},
    /* NVLink, no multicast before 9.0: a ring alone, with a tree, with a tree of other peers. */
    {MPL_LINK_NVLINK, 80, 8, 1, 0, 0, 16 * 18, 24 * 30, 24 * 42, 0, 0},
    /* NVLS: eight heads, 16 channels, two buffers of 1 MiB. */
    {MPL_LINK_NVLINK, 90, 8, 1, 2, 27, 16 * 18, 16 * 30, 24 * 42 + 256, 0, 0},
    /* Buffers of 4 MiB before 2.21; tables are small and all are connected at once before 2.19. */
    {MPL_LINK_NVLINK, 90, 8, 1, 2, 20, 16 * 30, 16 * 30, 24 * 42 + 1024, 0, 0},
    {MPL_LINK_NVLINK, 90, 8, 1, 2, 18, 2 + 16 * 24, 2 + 16 * 24, 2 + 24 * 36 + 1024, 0, 0},
    {MPL_LINK_NVLINK, 100, 4, 1, 0, 0, 16 * 18, 24 * 30, 32 * 42 + 256, 0, 0},
    /* Two nodes: 16 channels cross by one of 8 cards, 20 MiB each. */
    {MPL_LINK_NVLINK, 90, 16, 2, 0, 0, 16 * 18, 16 * 30 + 2 * 20, 24 * 42 + 256 + 24 * 20, 0, 0},
    /* One card a node. */
    {MPL_LINK_NVLINK, 90, 4, 4, 0, 0, 2 * 26, 4 * 26, 16 * 46, 0, 0},
    {MPL_LINK_UNKNOWN, 0, 4, 1, 0, 0, 2 * 6, (4 * 30 + 24 * 30) / 2, 24 * 42, 0, 0},
    {MPL_LINK_NVLINK, 90, 1, 1, 0, 0, 0, 0, 0, 0, 0},
    /* NCCL_MAX_NCHANNELS=8; NVLS has channels of its own. */
    {MPL_LINK_NVLINK, 90, 8, 1, 0, 0, 8 * 18, 8 * 30, 8 * 42 + 256, 8, 0},
    {MPL_LINK_NVLINK, 90, 4, 4, 0, 0, 8 * 26, 8 * 26, 8 * 46, 8, 0},
    /* NCCL_BUFFSIZE of 16 MiB: 0.5 + 4.6875 + 16 MiB and a page's worth of control: 22 MiB. */
    {MPL_LINK_NVLINK, 80, 8, 1, 0, 0, 16 * 30, 24 * 54, 24 * 78, 0, 16},
};

START_TEST(nccl_by_link_and_release)
{
    const struct nccl_row *row = &nccl_table[_i];
    const struct mpl_nccl_group group = {"all", "a test", row->ranks, row->nodes, false};
    const struct mpl_nccl_setup setup = {.link = row->link,
                                         .compute_capability = row->capability,
                                         .major = row->major,
                                         .minor = row->minor,
                                         .channels = row->channels,
                                         .buffer_bytes = row->buffer * MPL_MIB};
    const struct mpl_range range = mpl_nccl_group_bytes(&group, &setup);

    ck_assert_uint_eq(range.low_bytes, MIB(row->low));
    ck_assert_uint_eq(range.expected_bytes, MIB(row->expected));
    ck_assert_uint_eq(range.high_bytes, MIB(row->high));
    ck_assert_ptr_nonnull(range.source);
}
END_TEST

/* RTX PRO 6000: 600, 690, 750 MiB where kernels are loaded when used; an A100 went from 480 MiB to
 * 920 and 940, and had 1820 before CUDA 11.7. */
static const struct {
    struct mpl_context_setup setup;
    uint64_t low, expected, high; /* MiB */
} context_table[] = {
    {{MPL_MODULES_DEFAULT, 0, 0}, 600, 690, 750},
    {{MPL_MODULES_LAZY, 12, 8}, 600, 690, 750},
    {{MPL_MODULES_DEFAULT, 11, 7}, 600, 690, 750},
    {{MPL_MODULES_EAGER, 0, 0}, 1150, 1175 + 90, 1175 + 150},
    {{MPL_MODULES_EAGER, 12, 8}, 1150, 1175 + 90, 1175 + 150},
    {{MPL_MODULES_DEFAULT, 11, 3}, 1150, 2275 + 90, 2275 + 150},
    {{MPL_MODULES_LAZY, 10, 2}, 1150, 2275 + 90, 2275 + 150}, /* there was no lazy loading */
};

START_TEST(context_by_loading)
{
    enum mpl_device_match match;
    const struct mpl_range *card = mpl_device_find("RTX PRO 6000", &match, NULL, 0)->context;
    const struct mpl_range range = mpl_context_bytes(card, &context_table[_i].setup);

    ck_assert_uint_eq(range.low_bytes, MIB(context_table[_i].low));
    ck_assert_uint_eq(range.expected_bytes, MIB(context_table[_i].expected));
    ck_assert_uint_eq(range.high_bytes, MIB(context_table[_i].high));
    ck_assert_ptr_nonnull(range.source);
}
END_TEST

/* H100: 516 to 532 MiB were seen of a process that did nothing; the row's low figure is 616. */
START_TEST(bare_context)
{
    enum mpl_device_match match;
    const struct mpl_range range =
        mpl_bare_context_bytes(mpl_device_find("H100 PCIe", &match, NULL, 0)->context);

    ck_assert_uint_eq(range.low_bytes, MIB(516));
    ck_assert_uint_eq(range.expected_bytes, MIB(566));
    ck_assert_uint_eq(range.high_bytes, MIB(616));
}
END_TEST

START_TEST(libraries_have_sources)
{
    const struct mpl_library_row *row;
    uint64_t workspace[2] = {0, 0};

    for (size_t i = 0; (row = mpl_library_at(i)); i++) {
        ck_assert(row->name[0] && row->where[0] && row->counted[0] && row->source[0]);
        ck_assert(row->low_bytes <= row->high_bytes && row->high_bytes <= MPL_GIB);
        ck_assert_msg(!mpl_library_applies(row, 0), "%s: not of AMD's", row->name);
        if (!strncmp(row->name, "cuBLAS ", 7) && mpl_library_applies(row, 89))
            workspace[0] += row->high_bytes;
        if (!strncmp(row->name, "cuBLAS ", 7) && mpl_library_applies(row, 90))
            workspace[1] += row->high_bytes;
    }
    ck_assert_uint_eq(workspace[0], 8519680);
    ck_assert_uint_eq(workspace[1], 33554432);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("device");

    tcase_add_loop_test(tcase, row_is_sound, 0, row_count());
    tcase_add_loop_test(tcase, finds_by_name, 0, ROWS(find_table));
    tcase_add_test(tcase, remark_says_which_was_taken);
    tcase_add_test(tcase, remark_lists_near_names);
    tcase_add_test(tcase, long_name_is_unknown);
    tcase_add_test(tcase, rtx_pro_6000_figures);
    tcase_add_loop_test(tcase, nccl_by_link_and_release, 0, ROWS(nccl_table));
    tcase_add_loop_test(tcase, context_by_loading, 0, ROWS(context_table));
    tcase_add_test(tcase, bare_context);
    tcase_add_test(tcase, libraries_have_sources);
    return test_run("device", tcase);
}
