-- SPDX-License-Identifier: MIT
-- Slurm's job_submit, inside of slurmctld: an example. Users cannot get around it, and all of them
-- wait while it runs. It never opens what a user names: the plan is the text of the script's own
-- "#MEMPLAN" lines, or with read_scripts what the script launches; memplan reads it from standard
-- input, told to open no file that is named in it.
-- A site's /etc/slurm/job_submit.lua has
--     memplan = { gpus = { h100 = "H100 80GB HBM3" }, read_scripts = false }
--     dofile("/usr/share/memplan/slurm/job_submit.lua")
--     return slurm.SUCCESS
-- after its own slurm_job_submit, which is called first.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
memplan = memplan or {}
memplan.read_scripts = memplan.read_scripts or false
memplan.prefix = (memplan.prefix or "") .. " env -i PATH=/usr/bin:/bin"
local M = dofile(folder .. "memplan.lua")

-- A number that the user set: Slurm's sentinels are the largest values of 16, 32 and 64 bits.
local function number(value)
    value = tonumber(value)
    return value and value > 0 and value < 65533 and value or nil
end

local function request_of(job)
    local least, most = number(job.min_nodes), number(job.max_nodes)
    return {
        gres = job.tres_per_node,
        gpus = job.tres_per_job,
        per_task = job.tres_per_task,
        per_socket = job.tres_per_socket,
        nodes = least and least .. "-" .. (most or least),
        tasks = number(job.num_tasks),
        tasks_per_node = number(job.ntasks_per_node),
        sockets_per_node = number(job.sockets_per_node),
        features = job.features,
    }
end

local function submit(job, uid)
    local cards = M.cards(request_of(job))
    local _, text = M.directives(job.script)
    local is_guessed = not text and M.settings.read_scripts and cards.is_asked
    text = text or is_guessed and job.script
    if not text then
        return slurm.SUCCESS
    end
    local options = M.options(cards)
    options[#options + 1] = "--no-ledger"
    options[#options + 1] = "--no-files"
    local code, lines = M.check(options, nil, text)
    if code == M.DOES_NOT_FIT or not is_guessed then
        for _, line in ipairs(lines) do
            slurm.log_user("%s", line)
        end
    end
    if code == M.DOES_NOT_FIT then
        return slurm.ERROR
    end
    if M.explain(code) and not is_guessed then
        slurm.log_user("memplan: the plan was not checked (%s); the job goes on", M.explain(code))
        slurm.log_info("memplan: uid %d: %s", uid, M.explain(code))
    end
    return slurm.SUCCESS
end

-- An error of this file is none of the user's: it is told, and the job goes on.
local function guarded(job, uid)
    local is_done, result = pcall(submit, job, uid)
    if is_done then
        return result
    end
    slurm.log_info("memplan: the hook failed (%s); the job goes on", tostring(result))
    return slurm.SUCCESS
end

local own = slurm_job_submit

function slurm_job_submit(job, partitions, uid)
    local code = own and own(job, partitions, uid) or slurm.SUCCESS
    if code ~= slurm.SUCCESS then
        return code
    end
    return guarded(job, uid)
end

slurm_job_modify = slurm_job_modify or function()
    return slurm.SUCCESS
end

return slurm.SUCCESS
