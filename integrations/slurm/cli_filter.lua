-- SPDX-License-Identifier: MIT
-- Slurm's cli_filter, inside of sbatch, srun and salloc, as the user: asks memplan before the
-- controller is. A site's /etc/slurm/cli_filter.lua ends in
--     dofile("/usr/share/memplan/slurm/cli_filter.lua")
-- and keeps what it does itself: its own slurm_cli_pre_submit is called first.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local M = dofile(folder .. "memplan.lua")

-- A string that the user gave for an option; nil where none was. (The options themselves have
-- defaults that look like it: one task.) What would need unescaping is no name of a card or count.
local function given(json, name)
    return json:match('[{,]"' .. name:gsub("%-", "%%-") .. '":"([^"\\]*)"')
end

local function request_of(json)
    return {
        gres = given(json, "gres"),
        gpus = given(json, "gpus"),
        per_node = given(json, "gpus-per-node"),
        per_task = given(json, "gpus-per-task"),
        per_socket = given(json, "gpus-per-socket"),
        nodes = given(json, "nodes"),
        tasks = tonumber(given(json, "ntasks")),
        tasks_per_node = tonumber(given(json, "ntasks-per-node")),
        sockets_per_node = tonumber(given(json, "sockets-per-node")),
        features = given(json, "constraint"),
    }
end

-- The option of the SPANK plugin, where that is there.
local function option_of(options)
    local spank = options["spank"]
    local plugin = spank and spank["memplan"]
    return plugin and plugin["memplan"]
end

-- The file that sbatch submits, its first word; nil for --wrap and a script by standard input.
local function script_of(options)
    return options["type"] == "sbatch" and options["argv"] and options["argv"][1] or nil
end

-- What srun starts, as a script of one line.
local function line_of(options)
    local words = {}
    for _, word in ipairs(options["type"] == "srun" and options["argv"] or {}) do
        words[#words + 1] = M.quote(word)
    end
    return #words > 0 and "#!/bin/sh\nsrun " .. table.concat(words, " ") .. "\n" or nil
end

-- { file = } or { text = }, and guessed where it is what the script launches, not a plan that was
-- given; nil: there is nothing to check.
local function plan_of(options, is_asked)
    local named = option_of(options)
    if not named or named == "" then
        named = (options["comment"] or ""):match("memplan=(%S+)") or os.getenv("MEMPLAN_PLAN")
    end
    if named and named ~= "" then
        return named ~= "none" and { file = named } or nil
    end
    local script = script_of(options)
    local file, text = M.directives(M.read(script))
    if file then
        return file ~= "none" and { file = file } or nil
    elseif text then
        return { text = text, name = script }
    elseif not (M.settings.read_scripts and is_asked) then
        return nil
    elseif script then
        return { file = script, is_guessed = true }
    end
    text = line_of(options)
    return text and { text = text, is_guessed = true } or nil
end

local function pre_submit(options)
    if os.getenv("SLURM_JOB_ID") then
        return slurm.SUCCESS -- a step; its job was checked
    end
    local cards = M.cards(request_of(slurm.json_cli_options(options) or ""))
    local plan = plan_of(options, cards.is_asked)
    if not plan then
        return slurm.SUCCESS
    end
    local code, lines = M.check(M.options(cards), plan.file, plan.text)
    local print = code == M.DOES_NOT_FIT and slurm.log_error or slurm.log_info
    if plan.is_guessed and code ~= M.DOES_NOT_FIT then
        return slurm.SUCCESS -- most scripts train nothing; nobody asked
    end
    for _, line in ipairs(lines) do
        print("%s", line)
    end
    if cards.kinds > 1 then
        slurm.log_info("memplan: cards of several kinds are asked for; the plan's own was taken")
    end
    if code == M.DOES_NOT_FIT then
        slurm.log_info("%s", "memplan: refused; --comment=memplan=none submits without the check")
        return slurm.ERROR
    end
    if M.explain(code) then
        slurm.log_info("memplan: %s was not checked (%s); the job goes on",
            plan.file or plan.name or "the plan", M.explain(code))
    end
    return slurm.SUCCESS
end

-- An error of this file is none of the user's: it is told, and the job goes on.
local function guarded(options)
    local is_done, result = pcall(pre_submit, options)
    if is_done then
        return result
    end
    slurm.log_info("memplan: the hook failed (%s); the job goes on", tostring(result))
    return slurm.SUCCESS
end

local own = slurm_cli_pre_submit

function slurm_cli_pre_submit(options, offset)
    local code = own and own(options, offset) or slurm.SUCCESS
    if code ~= slurm.SUCCESS then
        return code
    end
    return guarded(options)
end

slurm_cli_setup_defaults = slurm_cli_setup_defaults or function()
    return slurm.SUCCESS
end
slurm_cli_post_submit = slurm_cli_post_submit or function()
    return slurm.SUCCESS
end
