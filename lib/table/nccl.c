/* SPDX-License-Identifier: MIT */
/*
 * TABLE: device memory that NCCL takes for one communicator, by link, nodes and release.
 *
 * source: NVIDIA/nccl, releases 2.18 to 2.30: src/init.cc (computeBuffSizes), src/include/device.h
 * (sizes of the LL and LL128 buffers), src/transport/p2p.cc (p2pSendSetup, p2pRecvSetup),
 * src/transport/net.cc (sendProxyConnect, recvProxyConnect), src/transport/nvls.cc
 * (ncclNvlsBufferSetup), src/channel.cc (initChannel), src/graph/connect.cc (ncclTopoPostset).
 * Numbers of channels: logs with NCCL_DEBUG=INFO.
 */
#include "table/nccl.h"

/* Memory of cuMemCreate comes in pages of this size; so does what peers map (CUDA_IPC_MIN). */
#define PAGE_BYTES (2 * MPL_MIB)

/* Bytes of a connection's buffers: one of each protocol, which all are made. */
#define LL_BYTES      (UINT64_C(8) * 512 * 8 * 16)  /* lines x threads x steps x line */
#define LL128_BYTES   (UINT64_C(120) * 640 * 8 * 8) /* elements x threads x steps x 8 */
#define SIMPLE_BYTES  (UINT64_C(4) * MPL_MIB)       /* NCCL_BUFFSIZE */
#define CONTROL_BYTES UINT64_C(4096)                /* ncclSendMem, ncclRecvMem */

/* A channel's tables of peers: three allocations from 2.19 on, each of a page (NCCL_CUMEM_ENABLE);
 * before, small ones that share pages. */
#define CHANNEL_TABLES 3

#define NVLS_STEPS 8

/** Channels that a communicator was seen to use. */
struct channels {
    uint32_t low, expected, high;
    uint32_t nvls; /* 0: the link has no multicast */
    const char *source;
};

static const struct channels over_pcie = {
    2, 4, 4, 0,
    "2 to 4 channels over PCIe; low: buffers in the host's memory, where cards have no direct "
    "access"};
static const struct channels over_nvlink_80 = {16, 24, 24, 0, "16 to 24 channels over NVLink"};
static const struct channels over_nvlink_90 = {16, 16, 24, 16,
                                               "16 to 24 channels over NVLink; high: with NVLS"};
static const struct channels over_nvlink_100 = {16, 24, 32, 32,
                                                "16 to 32 channels over NVLink; high: with NVLS"};
static const struct channels over_network = {2, 4, 16, 0,
                                             "one card a node, 2 to 16 channels over the network"};

static bool is_older(const struct mpl_nccl_setup *setup, uint16_t major, uint16_t minor)
{
    if (!setup->major)
        return false;
    return setup->major < major || (setup->major == major && setup->minor < minor);
}

static uint64_t in_pages(uint64_t bytes)
{
    return mpl_round_up(bytes, PAGE_BYTES);
}

/* The Simple protocol's buffer, as NCCL_BUFFSIZE sets it. */
static uint64_t simple_bytes(const struct mpl_nccl_setup *setup)
{
    return setup->buffer_bytes ? setup->buffer_bytes : SIMPLE_BYTES;
}

/* One channel to one peer and back inside a node; the receiver holds the buffers (write mode).
 * shape: one send, one receive; unit: bytes on one rank */
static uint64_t peer_bytes(const struct mpl_nccl_setup *setup)
{
    return in_pages(CONTROL_BYTES) +
           in_pages(CONTROL_BYTES + LL_BYTES + LL128_BYTES + simple_bytes(setup));
}

/* The same over the network with GPUDirect: the LL buffer of a sender lies on the host. */
static uint64_t network_bytes(const struct mpl_nccl_setup *setup)
{
    const uint64_t simple = simple_bytes(setup);

    return in_pages(LL128_BYTES + simple) + in_pages(LL_BYTES + LL128_BYTES + simple);
}

/* NVLS: a head for each card of the node, two buffers for each channel and head.
 * shape: heads x channels x 2 x steps x chunk; unit: bytes on one rank */
static uint64_t nvls_bytes(uint32_t heads, uint32_t channels, const struct mpl_nccl_setup *setup)
{
    const uint64_t buffer =
        is_older(setup, 2, 21) ? SIMPLE_BYTES : UINT64_C(128) * MPL_KIB * NVLS_STEPS;

    return mpl_mul(mpl_mul(heads, channels), 2 * buffer);
}

/* What a plan says of the channels stands for all three. NVLS has channels of its own. */
static struct channels given_channels(const struct channels *usual,
                                      const struct mpl_nccl_setup *setup)
{
    const uint32_t n = setup->channels;

    if (!n)
        return *usual;
    return (struct channels){n, n, n, usual->nvls,
                             usual->nvls ? "parallelism.nccl_channels; high: with NVLS"
                                         : "parallelism.nccl_channels"};
}

static struct channels channels_of(const struct mpl_nccl_setup *setup, enum mpl_link link)
{
    const struct channels *usual = &over_nvlink_80;

    if (link == MPL_LINK_PCIE)
        usual = &over_pcie;
    else if (setup->compute_capability >= 100)
        usual = &over_nvlink_100;
    else if (setup->compute_capability >= 90)
        usual = &over_nvlink_90;
    return given_channels(usual, setup);
}

static uint64_t tables_bytes(uint32_t channels, const struct mpl_nccl_setup *setup)
{
    return is_older(setup, 2, 19) ? PAGE_BYTES : channels * (CHANNEL_TABLES * PAGE_BYTES);
}

/* A communicator whose ranks all lie on nodes of their own. */
static struct mpl_range spread_out(const struct mpl_nccl_setup *setup)
{
    const struct channels given = given_channels(&over_network, setup), *c = &given;

    return (struct mpl_range){
        tables_bytes(c->low, setup) + c->low * network_bytes(setup),
        tables_bytes(c->expected, setup) + c->expected * network_bytes(setup),
        tables_bytes(c->high, setup) + c->high * 2 * network_bytes(setup),
        c->source,
    };
}

/* Where a ring crosses nodes, a channel of one card of the node goes over the network. */
static struct mpl_range over_link(const struct mpl_nccl_group *group,
                                  const struct mpl_nccl_setup *setup, enum mpl_link link)
{
    const struct channels given = channels_of(setup, link), *c = &given;
    const uint32_t local = (group->ranks + group->nodes - 1) / group->nodes;
    const bool connects_all = is_older(setup, 2, 22); /* NCCL_RUNTIME_CONNECT */
    const uint64_t peer = peer_bytes(setup);
    const uint64_t low_peer = link == MPL_LINK_PCIE ? 0 : peer;
    struct mpl_range range = {
        tables_bytes(c->low, setup) + c->low * low_peer * (connects_all && local > 2 ? 2 : 1),
        tables_bytes(c->expected, setup) + c->expected * peer * (local > 2 ? 2 : 1),
        tables_bytes(c->high, setup) + c->high * peer * (local > 2 ? 3 : 1),
        c->source,
    };

    if (c->nvls && local > 2 && !is_older(setup, 2, 17))
        range.high_bytes = mpl_add(range.high_bytes, nvls_bytes(local, c->nvls, setup));
    if (group->nodes > 1) {
        range.expected_bytes += (c->expected + local - 1) / local * network_bytes(setup);
        range.high_bytes = mpl_add(range.high_bytes, c->high * network_bytes(setup));
    }
    return range;
}

struct mpl_range mpl_nccl_group_bytes(const struct mpl_nccl_group *group,
                                      const struct mpl_nccl_setup *setup)
{
    struct mpl_range range, fast;

    if (group->ranks <= 1)
        return (struct mpl_range){0, 0, 0, "no communication between ranks"};
    if (group->nodes >= group->ranks)
        range = spread_out(setup);
    else if (setup->link == MPL_LINK_PCIE || setup->link == MPL_LINK_NVLINK)
        range = over_link(group, setup, setup->link);
    else {
        range = over_link(group, setup, MPL_LINK_PCIE);
        fast = over_link(group, setup, MPL_LINK_NVLINK);
        range.expected_bytes = range.expected_bytes + fast.expected_bytes;
        range.expected_bytes /= 2;
        range.high_bytes = fast.high_bytes;
        range.source = "an unknown link: 2 channels over PCIe to 24 and more over NVLink";
    }
    if (group->is_uncertain)
        range.low_bytes = range.expected_bytes = 0;
    return range;
}
