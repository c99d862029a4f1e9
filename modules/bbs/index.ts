import { type CallContext, createConnect, defineModule, type ToolDef, type ToolModule, z } from 'pegboard'
import { invalid, unavailable } from '../_errors.ts'
import { asRecord, isRecord } from '../_is-record.ts'
import { createJsonFile, type JsonFile } from '../_json-file.ts'
import type { DirectoryBoard } from './board-directory.ts'
import { KINDS, ORDERS } from './kinds.ts'

const SETTING = 'modules.bbs.config'
const optionalPath = z.string().min(1).optional()

const Config = z.strictObject({
  host_file: optionalPath.describe('JSON file with facts about this board (absolute path).'),
  provider: optionalPath.describe(
    'Instead of a file: name of the `_` file in the modules folder that provides the facts.',
  ),
  user: z
    .strictObject({
      level: z.int().min(0).default(0).describe('Security level.'),
      flags: z.array(z.string()).default([]).describe('Flags of the user.'),
    })
    .prefault({})
    .describe('Access of callers to this board; profiles can change it.'),
  directory_file: optionalPath.describe(
    'List of boards in Synchronet\'s format (sbbslist.json), absolute path; "sample" is an invented one.',
  ),
  finger: z
    .strictObject({
      enabled: z.boolean().default(true).describe('Ask boards that run Synchronet who is online.'),
      port: z.int().min(1).max(65_535).default(79).describe('Port of the finger service.'),
      timeout_ms: z
        .int()
        .min(100)
        .max(10_000)
        .default(5_000)
        .describe('Timeout of each of three questions; ten seconds for all.'),
      allow_private: z.boolean().default(false).describe('Allow private networks and this machine.'),
    })
    .prefault({})
    .describe('Settings of live questions.'),
})

type Settings = z.infer<typeof Config>
type Context = CallContext<Settings>
interface Limit {
  readonly max: number
  readonly default: number
}
const ENTRY_LIMIT: Limit = { max: 50, default: 20 }
const BOARD_LIMIT: Limit = { max: 30, default: 10 }
const clampLimit = (value: number | undefined, limit: Limit): number =>
  Math.min(limit.max, Math.max(1, Math.trunc(value ?? limit.default)))
/** Models guess values, so they are checked when the tool runs, with a helpful error. */
const looseEnum = (values: readonly string[]) => z.string().optional().meta({ enum: values })
const looseLimit = (limit: Limit) =>
  z.number().optional().meta({ type: 'integer', minimum: 1, maximum: limit.max, default: limit.default })
const optionalText = (description: string) => z.string().max(200).optional().describe(description)

const isOneOf = <T extends string>(values: readonly T[], value: string): value is T =>
  (values as readonly string[]).includes(value)

const ThisBbs = z
  .object({
    kind: looseEnum(KINDS).describe('What to list.'),
    group: optionalText('For subs: the message group.'),
    lib: optionalText('For dirs: the file library.'),
    section: optionalText('For doors: the section.'),
    sub: optionalText('For recent_messages: the sub, by name or code.'),
    limit: looseLimit(ENTRY_LIMIT).describe('Maximum number of entries.'),
  })
  .meta({ required: ['kind'] })

const thisBbs = (files: JsonFile): ToolDef<Settings, typeof ThisBbs> => ({
  title: 'This board',
  description:
    "List what this board itself has: message groups and subs, file libraries and dirs, door sections and doors, headers of recent messages of a sub, statistics of today and of all time. Call it for questions about this board's own contents. Do not use it for other boards (bbs_directory), nor for the text of messages, which it never returns.",
  aliases: [
    'message areas',
    'file areas',
    'door games here',
    'board statistics',
    'zones de messages',
    'áreas de mensajes',
  ],
  tags: ['bbs', 'board', 'messages', 'files', 'doors'],
  input: ThisBbs,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { kind: 'groups' } }, { input: { kind: 'recent_messages', sub: 'general', limit: 5 } }],
  available: ({ config }) =>
    config.host_file !== undefined ||
    config.provider !== undefined ||
    `set ${SETTING}.host_file or ${SETTING}.provider`,
  async run(input, { config, shared }) {
    const kind = (input.kind ?? 'groups').trim().toLowerCase()
    if (!isOneOf(KINDS, kind)) throw invalid(`Unknown kind: "${kind.slice(0, 40)}".`, `Use one of ${KINDS.join(', ')}.`)
    const { describeBoard } = await import('./host.ts')
    const board = await loadBoard(files, config, shared)
    const limit = clampLimit(input.limit, ENTRY_LIMIT)
    return await describeBoard(board, config.user, { ...input, kind, limit }, Date.now())
  },
})

/** @throws ToolError if there is no data about the board */
async function loadBoard(files: JsonFile, { host_file, provider }: Settings, shared: Context['shared']) {
  const board =
    provider === undefined
      ? await files.read(host_file as string)
      : (asRecord(shared[provider])['default'] ?? shared[provider])
  if (isRecord(board)) return board
  throw unavailable(
    'The facts about this board cannot be read now.',
    `The operator checks ${SETTING}.${provider === undefined ? 'host_file' : 'provider'}.`,
  )
}

const Directory = z
  .object({
    mode: looseEnum(['lookup', 'list']).describe('lookup: one board, by name only. list: several boards, by filters.'),
    name: optionalText('For lookup only: name, sysop or address of a board.'),
    kind: looseEnum(ORDERS).describe('For list only: the order.'),
    limit: looseLimit(BOARD_LIMIT).describe('For list only: maximum number of boards.'),
    software: optionalText('For list only: part of the software, such as "Synchronet".'),
    network: optionalText('For list only: part of a network, such as "FidoNet".'),
    sysop: optionalText("For list only: part of the sysop's name."),
    os: optionalText('For list only: part of the operating system.'),
    query: optionalText('What models send that know neither mode.'),
  })
  .meta({ required: ['mode'] })

type DirectoryInput = z.infer<typeof Directory>

const FILTERS = ['kind', 'limit', 'software', 'network', 'sysop', 'os'] as const
const isGiven = (value: unknown): boolean => value !== undefined && String(value).trim() !== ''

/** The mode, derived from the other parameters if not given. @throws ToolError with a message for the model */
function modeOf(input: DirectoryInput): { readonly mode: 'lookup' | 'list'; readonly input: DirectoryInput } {
  const requestedMode = input.mode?.trim().toLowerCase()
  const hasFilter = FILTERS.some((key) => isGiven(input[key]))
  if (requestedMode === 'lookup' || requestedMode === 'list') return { mode: requestedMode, input }
  if (isGiven(input.name) && !hasFilter) return { mode: 'lookup', input }
  if (hasFilter) return { mode: 'list', input }
  if (isGiven(input.query)) return { mode: 'list', input: { ...input, network: input.query } }
  throw invalid(
    'The mode is unclear.',
    'Use mode "lookup" with a name for one board, or "list" with kind, software, network or sysop for many.',
  )
}

const directory = (files: JsonFile): ToolDef<Settings, typeof Directory> => ({
  title: 'Directory of boards',
  description:
    'Look up bulletin boards in a directory. mode "lookup" with name: one board in full, whether it is up, how reliable, and who is on now. mode "list" with filters: several boards; total is the count before limit. Never mix name with filters. Call it for questions about individual boards. Do not use it for this board\'s own contents (this_bbs), nor for BBS history.',
  aliases: ['bbs list', 'find a bbs', 'is a board up', 'who is online', 'liste de bbs', 'lista de bbs', 'BBS-Liste'],
  tags: ['bbs', 'directory', 'telnet', 'finger', 'synchronet'],
  input: Directory,
  hidden: ['os', 'query'],
  effect: 'read',
  openWorld: true,
  sideEffects: ['asks a board for its status by finger'],
  examples: [
    { input: { mode: 'lookup', name: 'Lantern Room' } },
    { input: { mode: 'list', kind: 'reliable', network: 'FidoNet', limit: 5 } },
  ],
  available: ({ config }) => config.directory_file !== undefined || `set ${SETTING}.directory_file`,
  async run(parameters, ctx) {
    const { mode, input } = modeOf(parameters)
    const { parseBoards } = await import('./board-directory.ts')
    const { directory_file } = ctx.config
    const file =
      directory_file === 'sample' ? (await import('./sample.ts')).sample : await files.read(directory_file as string)
    const boards = parseBoards(file)
    return mode === 'list' ? await listMatching(boards, input) : await lookUp(boards, input, ctx)
  },
})

/** @throws ToolError E_VALIDATION for parameters of the other mode */
async function listMatching(boards: readonly DirectoryBoard[], input: DirectoryInput) {
  const { listBoards } = await import('./board-directory.ts')
  if (isGiven(input.name))
    throw invalid('mode "list" takes no name.', 'Use mode "lookup" for one board, or sysop for the boards of a person.')
  const kind = (input.kind ?? 'recent').trim().toLowerCase()
  if (!isOneOf(ORDERS, kind)) throw invalid(`Unknown kind: "${kind.slice(0, 40)}".`, `Use one of ${ORDERS.join(', ')}.`)
  const { software, network, sysop, os } = input
  return listBoards(boards, kind, clampLimit(input.limit, BOARD_LIMIT), { software, network, sysop, os })
}

/** @throws ToolError E_VALIDATION for parameters of the other mode */
async function lookUp(boards: readonly DirectoryBoard[], input: DirectoryInput, ctx: Context) {
  const { detailsOf, findBoard } = await import('./board-directory.ts')
  const boardName = (isGiven(input.name) ? input.name : input.query)?.trim()
  if (!boardName)
    throw invalid('mode "lookup" needs a name.', 'For boards by network, software or sysop use mode "list".')
  const filters = FILTERS.filter((key) => isGiven(input[key]))
  if (filters.length > 0)
    throw invalid(
      `mode "lookup" takes a name alone, not ${filters.join(', ')}.`,
      'Leave those out, or use mode "list".',
    )
  const { finger } = ctx.config
  const board = findBoard(boards, boardName)
  if (!board)
    return {
      query: boardName,
      found: false,
      note: 'No board in this directory has this name, sysop or address. Say so; do not guess.',
    }
  const answer = { query: boardName, found: true, ...detailsOf(board) }
  if (!finger.enabled || !/synchronet/i.test(board.software)) return answer
  if (answer.verify_status === 'down')
    return {
      ...answer,
      online_query_result: 'skipped: the last nightly check found the board down; see verify_last_failure',
    }
  const { fingerHost, queryStatus } = await import('./finger.ts')
  const host = fingerHost(board)
  if (host === undefined) return answer
  const connect = createConnect({ allowPrivate: finger.allow_private, setting: `${SETTING}.finger.allow_private` })
  return { ...answer, ...(await queryStatus(connect, host, finger, ctx.signal, ctx.progress)) }
}

/** State is created here, so that a reloaded or second instance has its own. */
function bbs(): ToolModule<unknown> {
  const files = createJsonFile()
  return defineModule({
    name: 'bbs',
    description: 'Contents of this bulletin board system (BBS), and a directory of other boards.',
    config: Config,
    enabled: ({ config: { host_file, provider, directory_file } }) =>
      [host_file, provider, directory_file].some((file) => file !== undefined) ||
      `set ${SETTING}.host_file, ${SETTING}.provider or ${SETTING}.directory_file`,
    readOnly: true,
    synonyms: [
      ['bbs', 'board', 'bulletin board'],
      ['sysop', 'operator'],
    ],
    tools: { this_bbs: thisBbs(files), bbs_directory: directory(files) },
  }) as ToolModule<unknown>
}

export default bbs()
