-- SPDX-License-Identifier: MIT
-- What the Lua hooks share: the cards that a request asks for, and one run of the memplan command.
-- A site's settings stand in the global table `memplan` before this is loaded; see README.md.
local M = {}

local defaults = {
    command = "@MEMPLAN@",
    seconds = 2,          -- then the command is killed, and the job goes on
    gpus = {},            -- cards by the site's names for them: { h100 = "H100 80GB HBM3" }
    read_scripts = true,  -- a job without a plan: what its script launches
    prefix = "",          -- words before the command, such as setpriv's (job_submit)
}
memplan = memplan or {}
for key, value in pairs(defaults) do
    if memplan[key] == nil then
        memplan[key] = value
    end
end
M.settings = memplan

local MOST_TEXT = 1048576

function M.quote(text)
    return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

-- Cards ----------------------------------------------------------------------------------------

-- Kind and count of one word of a request; nothing where it is not about cards. Slurm's releases
-- write "gpu:h100:2", "gres:gpu:h100:2", "gres/gpu:h100:2" and "gres/gpu:h100=2"; --gpus and its
-- like have no "gpu:".
local function card_of(word, is_gres)
    local rest, prefixes = word:gsub("^gres[:/]", "")
    if is_gres or prefixes > 0 then
        rest = rest == "gpu" and "1" or rest:match("^gpu[:=](.+)$")
    end
    if not rest or rest:match("^%d+$") then
        return nil, tonumber(rest)
    end
    local kind, count = rest:match("^(.+)[:=](%d+)$")
    return kind or rest, tonumber(count or 1)
end

-- Sum of the cards of a list. One kind twice, as --gres and --gpus-per-node make together, leaves
-- open how many those are: found.is_open.
local function count_cards(text, is_gres, found)
    local sum, seen = 0, {}
    for word in tostring(text or ""):gmatch("[^,%s]+") do
        local kind, count = card_of(word, is_gres)
        if count and count > 0 then
            found.is_open = found.is_open or seen[kind or ""]
            seen[kind or ""] = true
            if kind then
                found.kinds[kind] = true
            end
            sum = sum + count
        end
    end
    return sum
end

-- Nodes that a request fixes; nil where the scheduler chooses.
local function count_nodes(request)
    local nodes, tasks = request.nodes, request.tasks
    if nodes then
        local least, most = tostring(nodes):match("^(%d+)%-(%d+)$")
        least = least or tostring(nodes):match("^%d+$")
        return (not most or most == least) and tonumber(least) or nil
    end
    if tasks and request.tasks_per_node then
        return math.ceil(tasks / request.tasks_per_node)
    end
    return (not tasks or tasks == 1) and 1 or nil
end

local function count_tasks(request, nodes)
    return request.tasks or nodes and nodes * (request.tasks_per_node or 1)
end

local function times(a, b)
    return a and b and a * b or nil
end

local function set_counts(cards, request, found)
    local nodes = count_nodes(request)
    local node = math.max(count_cards(request.gres, true, found),
        count_cards(request.per_node, false, found))
    local total = count_cards(request.gpus, false, found)
    local task = count_cards(request.per_task, false, found)
    local socket = count_cards(request.per_socket, false, found)

    cards.is_asked = node + total + task + socket > 0
    if node == 0 and socket > 0 then
        node = times(socket, request.sockets_per_node)
    end
    if total > 0 then
        cards.total = total
    elseif node ~= 0 then
        cards.total = times(node, nodes)
    elseif task > 0 then
        cards.total = times(task, count_tasks(request, nodes))
    end
    if total == 0 and node ~= 0 and nodes and nodes > 1 then
        cards.each = node
    end
    if found.is_open then
        cards.total, cards.each = nil, nil
    end
end

-- request: gres, gpus, per_node, per_task and per_socket as Slurm writes them; nodes, which may be
-- "2-4"; tasks, tasks_per_node and sockets_per_node, numbers; features.
-- Returns { is_asked = cards are asked for, kind = their name, kinds = how many names, total =
-- cards of all nodes, each = cards of one of several nodes }; what the request leaves open is nil.
function M.cards(request)
    local found, cards = { kinds = {} }, { kinds = 0 }
    set_counts(cards, request, found)
    for kind in pairs(found.kinds) do
        cards.kinds, cards.kind = cards.kinds + 1, kind
    end
    if cards.kinds > 1 then
        cards.kind = nil
    elseif cards.kinds == 0 and cards.is_asked and M.settings.gpus[request.features or ""] then
        cards.kind = request.features -- --constraint=h100
    end
    return cards
end

-- Options of memplan for these cards. A name that the site's table does not have is memplan's to
-- find in its own; where that finds several cards, it says so, and the job is not refused.
function M.options(cards)
    local options = {}
    if cards.kind then
        local gpus = M.settings.gpus
        local name = gpus[cards.kind] or gpus[cards.kind:lower()] or cards.kind
        options[#options + 1] = "--gpu=" .. name
    end
    if cards.total then
        options[#options + 1] = "--gpus=" .. cards.total
    end
    if cards.total and cards.each then
        options[#options + 1] = "--set=parallelism.gpus_per_node=" .. cards.each
    end
    return options
end

-- Scripts --------------------------------------------------------------------------------------

-- "#MEMPLAN plan=FILE" and the text of all other "#MEMPLAN" lines, a plan; either may be nil.
function M.directives(script)
    local file, lines = nil, {}
    for line in (script or ""):gmatch("[^\r\n]+") do
        local rest = line:match("^#MEMPLAN%s+(.*)$")
        local named = rest and rest:match("^plan=(%S+)%s*$")
        if named then
            file = file or named
        elseif rest then
            lines[#lines + 1] = rest
        end
    end
    return file, #lines > 0 and table.concat(lines, "\n") .. "\n" or nil
end

function M.read(path)
    local file = path and io.open(path, "r")
    local text = file and file:read(MOST_TEXT)
    if file then
        file:close()
    end
    return text
end

-- The command ----------------------------------------------------------------------------------

-- Text as a file that the shell opens as the command's standard input: the caller never waits on a
-- command that does not read. nil: it could not be written.
local function keep(text)
    local path = os.tmpname()
    local file = io.open(path, "w")
    local written = file and file:write(text)
    if file then
        file:close()
    end
    if written then
        return path
    end
    os.remove(path)
end

-- memplan check OPTIONS -- PLAN, or of the text on standard input. Returns its exit code, nil where
-- there is none, and a list of the lines that it printed.
function M.check(options, plan, text)
    local settings, words, input = M.settings, {}, "/dev/null"
    if text then
        if #text >= MOST_TEXT then
            return nil, {}
        end
        input = keep(text)
        if not input then
            return nil, {}
        end
    end
    for _, word in ipairs(options) do
        words[#words + 1] = M.quote(word)
    end
    local run = string.format("timeout -s KILL %s %s %s check %s -- %s", settings.seconds,
        settings.prefix, M.quote(settings.command), table.concat(words, " "),
        M.quote(text and "-" or plan))
    local show = "out=$(%s 2>&1 <%s); echo $?; printf '%%s' \"$out\" | head -c 4000"
    local pipe = io.popen(string.format(show, run, M.quote(input)), "r")
    local code, lines = pipe and tonumber(pipe:read("*l") or ""), {}
    for line in pipe and pipe:lines() or function() end do
        lines[#lines + 1] = line
    end
    if pipe then
        pipe:close()
    end
    if text then
        os.remove(input)
    end
    return code, lines
end

M.DOES_NOT_FIT = 3

-- Why there is no verdict; nil where there is one.
function M.explain(code)
    if code == 0 or code == M.DOES_NOT_FIT or code == 4 then
        return nil
    elseif code == 137 then
        return "memplan did not answer in " .. M.settings.seconds .. " s"
    elseif code == 126 or code == 127 then
        return "memplan cannot be run"
    elseif code == 2 or code == 5 then
        return "memplan cannot tell"
    end
    return "memplan failed"
end

return M
