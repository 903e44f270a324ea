#!/bin/sh
# SPDX-License-Identifier: MIT
# A Slurm of one node on 127.0.0.1, without systemd, munge or a resolvable host name: for tests on a
# private machine, never for a cluster (AuthType=auth/none trusts every local user).
# usage: LAB=FOLDER lab.sh up|down
#   up    writes slurm.conf there, starts slurmctld and slurmd, waits until the node is idle; then
#         SLURM_CONF=$LAB/slurm.conf sbatch, srun and salloc work as usual
#   down  stops both, by their pid files alone
# environment: LAB, a private folder; EXTRA_CONF, more lines of slurm.conf
# exit: 0 done, 1 it did not come up or would not stop, 2 usage, 77 Slurm is not installed
set -eu
[ -n "${LAB:-}" ] || { echo "lab: set LAB to a private folder" >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
for program in slurmctld slurmd sbatch srun salloc sinfo python3; do
    command -v $program >/dev/null || { echo "lab: no $program" >&2; exit 77; }
done
mkdir -p "$LAB/state" "$LAB/spool"
LAB=$(cd "$LAB" && pwd)
export SLURM_CONF="$LAB/slurm.conf"

# True while the daemon of a pid file runs; a zombie, or a number that another program got, does not
# count.
runs() {
    [ -s "$1" ] || return 1
    pid=$(cat "$1")
    case $(cat "/proc/$pid/comm" 2>/dev/null) in
    slurmd | slurmctld) ;;
    *) return 1 ;;
    esac
    ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null
}

# wait_until SECONDS COMMAND...
wait_until() {
    end=$(($(date +%s) + $1))
    shift
    while ! "$@"; do
        [ "$(date +%s)" -le "$end" ] || return 1
        sleep 0.1
    done
}

has_stopped() {
    ! runs "$1"
}

stop() {
    runs "$1" || return 0
    kill "$pid" 2>/dev/null || return 0
    wait_until 3 has_stopped "$1" && return 0
    kill -9 "$pid" 2>/dev/null || return 0
    wait_until 5 has_stopped "$1"
}

is_idle() {
    [ "$(timeout 2 sinfo -h -p main -o %t 2>/dev/null)" = idle ]
}

# Three ports that nobody listens on now; somebody may by the time they are used, hence the tries.
free_ports() {
    python3 -c '
import socket
held = [socket.socket() for _ in range(3)]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))'
}

# Loopback alone is possible where the host's name has an address; else Slurm takes all there are.
bindings() {
    if getent hosts "$(hostname -s)" >/dev/null; then
        echo CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
    fi
}

# Cards: the gres plugin wants one device file each, and no two the same. Nodes named ghost are never
# there; a request that only they could serve is accepted and waits.
write_files() {
    cat >"$SLURM_CONF" <<END
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
$(bindings)
SlurmctldPort=$1
SlurmdPort=$2
SlurmdParameters=config_overrides
StateSaveLocation=$LAB/state
SlurmdSpoolDir=$LAB/spool
SlurmctldPidFile=$LAB/slurmctld.pid
SlurmdPidFile=$LAB/slurmd.pid
SlurmctldLogFile=$LAB/slurmctld.log
SlurmdLogFile=$LAB/slurmd.log
PlugStackConfig=$LAB/plugstack.conf
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
GresTypes=gpu
NodeName=here NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 Gres=gpu:h100:2,gpu:a100:1 State=UNKNOWN
NodeName=ghost[1-4] NodeAddr=127.0.0.[11-14] Port=$3 CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=64000 Gres=gpu:h100:8,gpu:a100:8,gpu:l40s:8,gpu:h1000:8 Features=l40s State=DOWN
PartitionName=main Nodes=here Default=YES State=UP
PartitionName=ghosts Nodes=ghost[1-4] State=UP
${EXTRA_CONF:-}
END
    cat >"$LAB/gres.conf" <<END
AutoDetect=off
NodeName=here Name=gpu Type=h100 File=/dev/null
NodeName=here Name=gpu Type=h100 File=/dev/zero
NodeName=here Name=gpu Type=a100 File=/dev/full
END
    [ -e "$LAB/plugstack.conf" ] || : >"$LAB/plugstack.conf"
}

# With other ports each time, should one have been taken meanwhile.
start() {
    for try in 1 2 3; do
        # shellcheck disable=SC2046 # three words
        write_files $(free_ports)
        if slurmctld -c && slurmd && wait_until 15 is_idle; then
            return 0
        fi
        echo "lab: try $try: it did not come up" >&2
        tail -n 20 "$LAB"/slurm*.log >&2 || :
        stop "$LAB/slurmd.pid" && stop "$LAB/slurmctld.pid"
    done
    return 1
}

case ${1:-} in
up)
    if runs "$LAB/slurmctld.pid" || runs "$LAB/slurmd.pid"; then
        echo "lab: already up in $LAB" >&2
        exit 1
    fi
    start
    ;;
down)
    code=0
    stop "$LAB/slurmd.pid" || code=1
    stop "$LAB/slurmctld.pid" || code=1
    exit $code
    ;;
*)
    echo "usage: LAB=FOLDER lab.sh up|down" >&2
    exit 2
    ;;
esac
