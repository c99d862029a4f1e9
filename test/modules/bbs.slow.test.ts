import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import bbs from '../../modules/bbs/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { put } from '../loader/setup.ts'

keepsTheContract(bbs)

type Json = Record<string, unknown>

/** The module with these files beside the configuration. */
async function open(config: Json, files: Record<string, unknown> = {}, more: Json = {}, dir = temporaryFolder()) {
  for (const [name, value] of Object.entries(files))
    writeFileSync(join(dir, name), typeof value === 'string' ? value : JSON.stringify(value))
  const placed = Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      key.endsWith('_file') && value !== 'sample' ? join(dir, String(value)) : value,
    ]),
  )
  const { app } = await startApp({ modules: { bbs: { config: placed } }, ...more }, dir)
  const ask =
    (tool: string) =>
    async (input: unknown, caller = localCaller): Promise<Answer> =>
      ((await app.call({ name: `bbs.${tool}`, input, caller })) as Answer).value
  return { app, dir, here: ask('this_bbs'), directory: ask('bbs_directory') }
}

const message = (number: number, when_written: unknown, more: Json = {}) => ({
  number,
  from: 'Ada',
  to: 'All',
  subject: `Number ${number}`,
  when_written,
  text: 'What is written here is nobody else’s business.',
  ...more,
})

const board = {
  name: 'Lantern Room',
  msg_groups: [
    {
      name: 'Local Talk',
      description: 'Ours alone.',
      subs: [
        {
          code: 'GENERAL',
          name: 'General Chat',
          description: 'Anything.',
          messages: [
            message(1, '2026-05-01T10:00:00Z'),
            message(3, '2026-05-03T10:00:00Z', { to: 'Bob' }),
            message(4, '2026-05-04T10:00:00Z', { vote: true }),
            message(2, Date.UTC(2026, 4, 2, 10) / 1_000),
          ],
        },
        {
          code: 'SYSOPS',
          name: 'Sysops',
          description: 'Staff.',
          access: { min_level: 50, flags: ['S'] },
          messages: [message(1, 1)],
        },
      ],
    },
    { name: 'FidoNet', description: 'The world.', subs: [{ code: 'CHAT', name: 'BBS Ads', description: '' }] },
    { name: 'Staff Only', access: { public: false }, subs: [{ code: 'X', name: 'X' }] },
    { name: '123', subs: [{ code: 'Y', name: 'Y' }] },
  ],
  file_libs: [
    {
      name: 'Utilities',
      description: 'Tools.',
      dirs: [
        { code: 'ARC', name: 'Archivers', description: 'Packers.' },
        { code: 'TERM', name: 'Terminals', description: 'Callers’ ends.' },
        { code: 'NEW', name: 'Unchecked', access: { min_level: 90 } },
      ],
    },
    { name: 'Empty', dirs: [] },
  ],
  door_sections: [
    {
      name: 'Games',
      code: 'GAMES',
      description: 'Doors.',
      programs: [
        { code: 'LORD', name: 'Red Dragon', description: 'Fight.' },
        { code: 'TW', name: 'Trade Wars', description: 'Trade.' },
      ],
    },
  ],
  stats: {
    today: {
      login_sessions: 12,
      messages_posted: 3,
      email_sent: 1,
      feedback_sent: 0,
      files_uploaded: 2,
      bytes_uploaded: 1_572_864,
      files_downloaded: 4,
      bytes_downloaded: 812,
      timeon_seconds: 5_400,
    },
    lifetime: {
      active_users: 412,
      login_sessions: 90_000,
      messages: 4_000,
      email: 7,
      feedback: 1,
      files: 900,
      timeon_seconds: 1,
    },
  },
}
const hosted = (user?: Json) => open({ host_file: 'host.json', ...(user ? { user } : {}) }, { 'host.json': board })

describe('this_bbs', () => {
  it('is unavailable until configured, and names the setting', async () => {
    const { app } = await startApp({})
    const { hidden } = app.view(localCaller)
    const setting = 'modules.bbs.config'
    for (const action of ['this_bbs', 'bbs_directory'])
      expect(hidden.get(`bbs.${action}`)?.reason).toBe(
        `set ${setting}.host_file, ${setting}.provider or ${setting}.directory_file`,
      )
    const half = await open({ directory_file: 'sample' })
    expect(half.app.view(localCaller).hidden.get('bbs.this_bbs')?.reason).toBe(
      `set ${setting}.host_file or ${setting}.provider`,
    )
    const other = await hosted()
    expect(other.app.view(localCaller).hidden.get('bbs.bbs_directory')?.reason).toBe(`set ${setting}.directory_file`)
  })

  it('answers every kind, and lists the kinds for an unknown one [SBS-20]', async () => {
    const { here } = await hosted()
    expect((await here({ kind: 'groups' })).count).toBe(2)
    for (const input of [
      { kind: 'groups' },
      { kind: 'subs', group: 'FidoNet' },
      { kind: 'libs' },
      { kind: 'dirs', lib: 'Utilities' },
      { kind: 'door_sections' },
      { kind: 'doors', section: 'Games' },
      { kind: 'recent_messages', sub: 'GENERAL' },
      { kind: 'stats' },
    ])
      expect(await here(input)).toMatchObject({ kind: input.kind })
    expect((await here({})).kind).toBe('groups')
    await expect(here({ kind: 'users' })).rejects.toMatchObject({
      code: 'E_VALIDATION',
      message: 'Unknown kind: "users".',
      hint: expect.stringContaining('groups, subs, libs, dirs, door_sections, doors, recent_messages, stats'),
    })
    // A limit outside its bounds is adjusted, not rejected.
    expect((await here({ kind: 'dirs', lib: 'util', limit: 0 })).shown).toBe(1)
    expect((await here({ kind: 'dirs', lib: 'util', limit: 999 })).shown).toBe(2)
  })

  it('shows clients the kinds, and that one is required [SBS-20]', async () => {
    const { app } = await hosted()
    const { tools } = await (await connectTo(app)).listTools()
    const { inputSchema } = tools.find(({ name }) => name === 'bbs__this_bbs') as Answer
    expect(inputSchema.required).toEqual(['kind'])
    expect(inputSchema.properties.kind.enum).toHaveLength(8)
    expect(inputSchema.properties.limit).toMatchObject({ type: 'integer', minimum: 1, maximum: 50, default: 20 })
  })

  it('shows and counts what this user may see, without empty parents [SBS-21]', async () => {
    const guest = await hosted()
    const member = await hosted({ level: 50, flags: ['S'] })
    expect((await guest.here({ kind: 'groups' })).groups).toEqual([
      { name: 'Local Talk', description: 'Ours alone.', sub_count: 1 },
      { name: 'FidoNet', description: 'The world.', sub_count: 1 },
    ])
    expect((await member.here({ kind: 'groups' })).groups).toMatchObject([
      { name: 'Local Talk', sub_count: 2 },
      { name: 'FidoNet', sub_count: 1 },
      { name: 'Staff Only', sub_count: 1 },
    ])
    expect((await (await hosted({ level: 50 })).here({ kind: 'groups' })).groups[0].sub_count).toBe(1)
    expect((await guest.here({ kind: 'libs' })).libs).toEqual([
      { name: 'Utilities', description: 'Tools.', dir_count: 2 },
    ])
    expect((await (await hosted({ level: 90 })).here({ kind: 'libs' })).libs[0].dir_count).toBe(3)
    await expect(guest.here({ kind: 'recent_messages', sub: 'Sysops' })).rejects.toMatchObject({
      message: 'Sysops is not publicly readable.',
    })
    expect((await member.here({ kind: 'recent_messages', sub: 'Sysops' })).total).toBe(1)
  })

  it('uses the user of the profile [SBS-21]', async () => {
    const { here } = await open(
      { host_file: 'host.json' },
      { 'host.json': board },
      {
        profiles: { staff: { modules: { bbs: { config: { user: { level: 90, flags: ['S'] } } } } } },
      },
    )
    expect((await here({ kind: 'groups' }, { ...localCaller, profile: 'staff' })).count).toBe(3)
    expect((await here({ kind: 'groups' })).count).toBe(2)
  })

  it('returns each kind in its format: counted before the limit, shown after [SBS-22]', async () => {
    const { here } = await hosted()
    expect(await here({ kind: 'groups', limit: 1 })).toEqual({
      kind: 'groups',
      count: 2,
      groups: [
        { name: 'Local Talk', description: 'Ours alone.', sub_count: 1 },
        { name: 'FidoNet', description: 'The world.', sub_count: 1 },
      ],
    })
    expect(await here({ kind: 'subs', group: 'Local Talk', limit: 1 })).toEqual({
      kind: 'subs',
      group: 'Local Talk',
      count: 1,
      shown: 1,
      subs: [{ code: 'GENERAL', name: 'General Chat', description: 'Anything.' }],
    })
    expect(await here({ kind: 'libs' })).toEqual({
      kind: 'libs',
      count: 1,
      libs: [{ name: 'Utilities', description: 'Tools.', dir_count: 2 }],
    })
    expect(await here({ kind: 'dirs', lib: 'Utilities', limit: 1 })).toEqual({
      kind: 'dirs',
      library: 'Utilities',
      count: 2,
      shown: 1,
      dirs: [{ code: 'ARC', name: 'Archivers', description: 'Packers.' }],
    })
    expect(await here({ kind: 'door_sections' })).toEqual({
      kind: 'door_sections',
      count: 1,
      sections: [{ name: 'Games', description: 'Doors.', program_count: 2 }],
    })
    expect(await here({ kind: 'doors', section: 'Games', limit: 1 })).toEqual({
      kind: 'doors',
      section: 'Games',
      count: 2,
      shown: 1,
      doors: [{ code: 'LORD', name: 'Red Dragon', description: 'Fight.' }],
    })
  })

  it('returns the groups if subs are requested without one; the others say what they need [SBS-23]', async () => {
    const { here } = await hosted()
    expect(await here({ kind: 'subs' })).toMatchObject({
      kind: 'groups',
      count: 2,
      _note: expect.stringContaining('as "group" to list its subs'),
    })
    for (const [kind, message, hint] of [
      ['dirs', 'dirs needs "lib".', 'There are: Utilities.'],
      ['doors', 'doors needs "section".', 'There are: Games.'],
      ['recent_messages', 'recent_messages needs "sub".', 'There are: General Chat, BBS Ads.'],
    ])
      await expect(here({ kind })).rejects.toMatchObject({ code: 'E_VALIDATION', message, hint })
  })

  it('matches names and codes in any case, whole ones before parts [SBS-24]', async () => {
    const { here } = await hosted()
    expect((await here({ kind: 'subs', group: 'local' })).group).toBe('Local Talk')
    expect((await here({ kind: 'doors', section: 'games' })).section).toBe('Games')
    expect((await here({ kind: 'recent_messages', sub: 'chat' })).sub).toBe('BBS Ads')
    expect((await here({ kind: 'recent_messages', sub: 'l chat' })).sub).toBe('General Chat')
    expect((await here({ kind: 'groups' })).groups.map(({ name }: Answer) => name)).not.toContain('123')
    await expect(here({ kind: 'subs', group: '123' })).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    await expect(here({ kind: 'dirs', lib: 'music' })).rejects.toMatchObject({
      message: 'Unknown lib: "music".',
      hint: 'There are: Utilities.',
    })
  })

  it('returns the newest messages first, with their age, without votes and texts [SBS-25]', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 4, 3, 10, 0, 30) })
    onTestFinished(() => void vi.useRealTimers())
    const { here } = await hosted()
    const answer = await here({ kind: 'recent_messages', sub: 'general', limit: 2 })
    expect(answer).toEqual({
      kind: 'recent_messages',
      sub: 'General Chat',
      sub_code: 'GENERAL',
      group: 'Local Talk',
      total: 3,
      shown: 2,
      messages: [
        {
          number: 3,
          from: 'Ada',
          to: 'Bob',
          subject: 'Number 3',
          when_written: '2026-05-03T10:00:00 UTC',
          age_seconds: 30,
        },
        {
          number: 2,
          from: 'Ada',
          to: 'All',
          subject: 'Number 2',
          when_written: '2026-05-02T10:00:00 UTC',
          age_seconds: 86_430,
        },
      ],
    })
    expect(JSON.stringify(answer)).not.toContain('business')
  })

  it('returns statistics as numbers, and bytes in readable units [SBS-26]', async () => {
    const { here } = await hosted()
    expect(await here({ kind: 'stats' })).toEqual({
      kind: 'stats',
      today: {
        login_sessions: 12,
        messages_posted: 3,
        email_sent: 1,
        feedback_sent: 0,
        files_uploaded: 2,
        bytes_uploaded: '1.5 MiB',
        files_downloaded: 4,
        bytes_downloaded: '812 B',
        timeon_seconds: 5_400,
      },
      lifetime: {
        active_users: 412,
        login_sessions: 90_000,
        messages: 4_000,
        email: 7,
        feedback: 1,
        files: 900,
        timeon_seconds: 1,
      },
    })
    const { formatBytes } = await import('../../modules/bbs/host.ts')
    expect([1_023, 1_024, 1_600, 1_048_576, 1_073_741_824, 5 * 1024 ** 4].map(formatBytes)).toEqual([
      '1023 B',
      '1 KiB',
      '2 KiB',
      '1.0 MiB',
      '1.00 GiB',
      '5.00 TiB',
    ])
  })

  it('uses the live data of a drop-in, if there is one [SBS-20, SBS-25]', async () => {
    const dir = temporaryFolder()
    await put(dir, {
      'modules/_board.mjs': `let calls = 0
        export const msg_groups = async () => [{ name: 'Live', subs: [{ code: 'NOW', name: 'Now' }] }]
        export const list_messages = async (code, limit) => [{ number: limit, from: code, subject: 'x', when_written: 0 }]
        export const stats = () => ({ today: { login_sessions: ++calls } })`,
    })
    const { here } = await open({ provider: 'board' }, {}, { modulesDir: 'modules' }, dir)
    expect((await here({ kind: 'groups' })).groups).toMatchObject([{ name: 'Live', sub_count: 1 }])
    expect((await here({ kind: 'recent_messages', sub: 'now', limit: 7 })).messages).toMatchObject([
      { number: 7, from: 'NOW' },
    ])
    expect((await here({ kind: 'stats' })).today).toEqual({ login_sessions: 1 })
    expect((await here({ kind: 'stats' })).today).toEqual({ login_sessions: 2 })
  })

  it.each([
    ['is missing', undefined],
    ['is no JSON', '{'],
    ['is a list', '[]'],
  ])('reports a file that %s', async (_what, text) => {
    const { here } = await open({ host_file: 'host.json' }, text === undefined ? {} : { 'host.json': text })
    await expect(here({ kind: 'groups' })).rejects.toMatchObject({
      code: 'E_BACKEND_UNAVAILABLE',
      hint: 'The operator checks modules.bbs.config.host_file.',
    })
  })

  it('skips invalid parts of a file', async () => {
    const { here } = await open(
      { host_file: 'host.json' },
      {
        'host.json': {
          msg_groups: [7, null, { name: 'A', subs: [3, { name: 'B', messages: 'x' }] }],
          stats: 4,
        },
      },
    )
    expect((await here({ kind: 'groups' })).groups).toMatchObject([{ name: 'A', sub_count: 2 }])
    expect(await here({ kind: 'stats' })).toEqual({ kind: 'stats', today: {}, lifetime: {} })
    expect(await here({ kind: 'recent_messages', sub: 'b' })).toMatchObject({ total: 0, messages: [] })
  })
})

const listed = (name: string, more: Json = {}): Json => ({
  name,
  sysop: [{ name: `${name} Sysop` }],
  software: 'Mystic',
  service: [],
  ...more,
})
const checked = (attempts: number, successes: number, more: Json = {}) => ({
  autoverify: { success: true, attempts, successes, ...more },
})

const boards = [
  listed('Alpha', {
    sysop: [{ name: 'Rob Beta' }],
    service: [{ protocol: 'telnet', address: 'alpha.example', port: 23 }],
  }),
  listed('Beta', { service: [{ protocol: 'TELNET', address: 'bbs.bravo.example', port: 2323 }] }),
  listed('Gamma Ray', {
    sysop: [{ name: 'Rob' }, { name: 'Ines' }],
    service: [{ protocol: 'ssh', address: 'gamma.example', port: 22 }],
  }),
]

const lookups = (list: unknown = boards, config: Json = {}) =>
  open({ directory_file: 'sbbslist.json', ...config }, { 'sbbslist.json': list })

describe('bbs_directory for one board', () => {
  it('finds it by name, then by sysop, then by address [SBS-30]', async () => {
    const { directory } = await lookups()
    const found = async (name: string) => (await directory({ mode: 'lookup', name })).name
    expect(await found('beta')).toBe('Beta')
    expect(await found('gamma')).toBe('Gamma Ray')
    expect(await found('ROB')).toBe('Gamma Ray')
    expect(await found('rob be')).toBe('Alpha')
    expect(await found('gamma.example')).toBe('Gamma Ray')
    // Both directions, without prefixes of host names such as `telnet.`.
    expect(await found('bravo.example')).toBe('Beta')
    expect(await found('telnet.alpha.example')).toBe('Alpha')
    expect(await found('node1.gamma.example')).toBe('Gamma Ray')
    expect(await directory({ mode: 'lookup', name: 'Delta' })).toEqual({
      query: 'Delta',
      found: false,
      note: expect.stringMatching(/No board .* do not guess/),
    })
  })

  it('returns everything the list says about it [SBS-31]', async () => {
    const { directory } = await lookups([
      listed('Lantern', {
        sysop: [{ name: 'Ines' }, { name: 'Jun' }],
        location: 'Bergen',
        description: ['One.', 'Two.'],
        web_site: 'https://lantern.example/',
        first_online: '1991-03-02',
        service: [{ protocol: 'Telnet', address: 'lantern.example', port: 23, description: 'x' }],
        network: [
          { name: 'FidoNet', address: '2:999/1' },
          { name: 'DOVE-Net', address: '' },
        ],
        terminal: { nodes: 8 },
        total: { users: 412 },
        entry: {
          verified: { on: '2026-11-01' },
          ...checked(9, 7, {
            last_success: { on: '2026-11-01', result: 'connected' },
            last_failure: { on: '2026-10-30', result: 'timed out' },
          }),
        },
      }),
      listed('Down', { entry: { autoverify: { success: false, attempts: 0 } } }),
      listed('New'),
    ])
    expect(await directory({ mode: 'lookup', name: 'lantern' })).toEqual({
      query: 'lantern',
      found: true,
      name: 'Lantern',
      sysop: 'Ines, Jun',
      location: 'Bergen',
      software: 'Mystic',
      description: 'One. Two.',
      web_site: 'https://lantern.example/',
      first_online: '1991-03-02',
      services: [{ protocol: 'telnet', address: 'lantern.example', port: 23 }],
      terminal: { nodes: 8 },
      networks: ['FidoNet (2:999/1)', 'DOVE-Net'],
      verify_status: 'up',
      verify_last_success: '2026-11-01',
      verify_last_failure: '2026-10-30',
      verify_last_failure_reason: 'timed out',
      verify_reliability: { attempts: 9, successes: 7, ratio: 0.778 },
      cached_stats: { users: 412 },
      cached_stats_asof: '2026-11-01',
    })
    expect(await directory({ mode: 'lookup', name: 'Down' })).toMatchObject({
      verify_status: 'down',
      verify_reliability: null,
    })
    expect(await directory({ mode: 'lookup', name: 'New' })).toMatchObject({
      verify_status: 'unknown',
      cached_stats: null,
    })
  })

  it.each([
    ['is missing', undefined],
    ['is corrupt', '[{"name":'],
    ['is no list', '{"name": "Alpha"}'],
  ])('does not find it if the file %s [SBS-35]', async (_what, text) => {
    const { directory } = await open(
      { directory_file: 'sbbslist.json' },
      text === undefined ? {} : { 'sbbslist.json': text },
    )
    expect(await directory({ mode: 'lookup', name: 'Alpha' })).toMatchObject({ found: false, note: expect.any(String) })
    expect(await directory({ mode: 'list' })).toMatchObject({ total: 0, bbses: [], note: expect.any(String) })
  })

  it('finds it in a rewritten file, and in the bundled sample [SBS-35]', async () => {
    const { directory, dir } = await lookups()
    expect((await directory({ mode: 'list' })).total).toBe(3)
    writeFileSync(
      join(dir, 'sbbslist.json'),
      JSON.stringify([listed('Delta'), 7, { name: 3, sysop: 'x', service: {} }]),
    )
    expect((await directory({ mode: 'lookup', name: 'Delta' })).found).toBe(true)
    const sample = await open({ directory_file: 'sample', finger: { enabled: false } })
    const { bbses, total } = await sample.directory({ mode: 'list', limit: 30 })
    expect(total).toBe(8)
    // These addresses are reserved for documentation.
    for (const { address } of bbses) expect(address).toMatch(/^[a-z0-9.]+\.example:\d+ \((telnet|ssh|rlogin)\)$/)
  })
})

/** A finger service like those of boards; `questions` are its requests. */
async function fingerService(answers: Record<string, string | null>) {
  const questions: string[] = []
  const server = createServer((socket) => {
    socket.setEncoding('latin1')
    socket.on('error', () => undefined)
    socket.once('data', (line) => {
      const question = String(line).replace(/\r\n$/, '')
      questions.push(question)
      const answer = answers[question]
      // `null`: it reads the question and does not answer.
      if (answer !== null) socket.end(answer ?? '', 'latin1')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, questions }
}

const synchronet = (more: Json = {}) =>
  listed('Lantern', {
    software: 'Synchronet 3.20',
    service: [{ protocol: 'telnet', address: '127.0.0.1', port: 23 }],
    ...more,
  })
const probing = (list: unknown, port: number, finger: Json = {}) =>
  lookups(list, { finger: { port, allow_private: true, timeout_ms: 1_000, ...finger } })

describe('bbs_directory with a live query', () => {
  it('returns version, uptime and users [SBS-32]', async () => {
    const { port, questions } = await fingerService({
      '?ver': '\x01hSynchronet BBS\x01n for Linux\r\nVersion 3.20\r\n\x07',
      '?uptime': 'Duration: 93784\r\n1700000000\r\nTue Nov 14 2023\r\nWed Nov 15 2023\r\n',
      '?active-users.json': JSON.stringify([{ name: 'Ada', action: 'reading mail', node: 2, prot: 'Telnet', age: 40 }]),
    })
    const { directory } = await probing([synchronet()], port)
    expect(await directory({ mode: 'lookup', name: 'Lantern' })).toMatchObject({
      synchronet_version: 'Synchronet BBS for Linux\nVersion 3.20',
      bbs_uptime_seconds: 93_784,
      bbs_uptime_human: '1d 2h 3m',
      bbs_started_at: 'Tue Nov 14 2023',
      online_callers: [{ alias: 'Ada', doing: 'reading mail', node: 2, connection: 'Telnet' }],
      online_count: 1,
    })
    expect(questions).toEqual(['?ver', '?uptime', '?active-users.json'])
  })

  it('omits what a board does not report [SBS-32]', async () => {
    const { port } = await fingerService({ '?ver': 'Synchronet 3.19', '?active-users.json': '{"no": "list"}' })
    const { directory } = await probing([synchronet()], port)
    const answer = await directory({ mode: 'lookup', name: 'Lantern' })
    expect(answer.synchronet_version).toBe('Synchronet 3.19')
    for (const key of ['bbs_uptime_seconds', 'online_callers', 'online_count', 'online_query_result'])
      expect(answer).not.toHaveProperty(key)
  })

  it('reports a failure if the first question is not answered, and asks no more [SBS-32]', async () => {
    const { port, questions } = await fingerService({})
    const { directory } = await probing([synchronet()], port)
    const failed =
      'finger to 127.0.0.1 failed: the board may be offline, behind a firewall, or without a finger service'
    expect(await directory({ mode: 'lookup', name: 'Lantern' })).toMatchObject({
      found: true,
      online_query_result: failed,
    })
    expect(questions).toEqual(['?ver'])
    const closed = await probing([synchronet()], 1)
    expect((await closed.directory({ mode: 'lookup', name: 'Lantern' })).online_query_result).toBe(failed)
    const silent = await fingerService({ '?ver': null })
    const waiting = await probing([synchronet()], silent.port, { timeout_ms: 100 })
    expect((await waiting.directory({ mode: 'lookup', name: 'Lantern' })).online_query_result).toBe(failed)
  })

  it('does not query boards that are down, of another make, at a private address, or if disabled [SBS-32]', async () => {
    const { port, questions } = await fingerService({ '?ver': 'x' })
    const down = synchronet({ entry: { autoverify: { success: false } } })
    const cases: [Json, Json, string | undefined][] = [
      [down, {}, 'skipped: the last nightly check found the board down; see verify_last_failure'],
      [synchronet({ software: 'Mystic' }), {}, undefined],
      [synchronet({ service: [{ protocol: 'http', address: '127.0.0.1', port: 80 }] }), {}, undefined],
      [synchronet(), { enabled: false }, undefined],
      [synchronet(), { allow_private: false }, 'finger to 127.0.0.1 was not tried: the address is not public'],
    ]
    for (const [entry, finger, result] of cases) {
      const { directory } = await probing([entry], port, finger)
      expect((await directory({ mode: 'lookup', name: 'Lantern' })).online_query_result).toBe(result)
    }
    expect(questions).toEqual([])
  })

  it('queries the finger service before the login service, and limits what it reads [SBS-32]', async () => {
    const { port, questions } = await fingerService({
      '?ver': 'v',
      '?uptime': 'Duration: 5',
      '?active-users.json': 'x'.repeat(300_000),
    })
    const { directory } = await probing(
      [
        synchronet({
          service: [
            { protocol: 'telnet', address: 'nobody.invalid', port: 23 },
            { protocol: 'finger', address: '127.0.0.1', port: 79 },
          ],
        }),
      ],
      port,
    )
    expect(await directory({ mode: 'lookup', name: 'Lantern' })).toMatchObject({
      synchronet_version: 'v',
      bbs_uptime_human: '0m',
    })
    expect(questions).toHaveLength(3)
  })
})

describe('bbs_directory for many boards', () => {
  const many = Array.from({ length: 25 }, (_, index) =>
    listed(`Board ${String(index).padStart(2, '0')}`, {
      software: index % 5 === 0 ? 'Synchronet' : 'Mystic',
      os: index % 2 === 0 ? 'Linux' : 'Windows',
      first_online: `${1990 + index}-01-01`,
      network: index < 10 ? [{ name: 'FidoNet', address: '1:1/1' }] : [{ name: 'fsxNet', address: '' }],
      service: [{ protocol: 'telnet', address: `b${index}.example`, port: 23 }],
      total: { users: (index * 7) % 25 },
      entry: checked(100, 100 - index, { last_success: { on: `2026-10-${String(index + 1).padStart(2, '0')}` } }),
    }),
  )

  it('counts before the limit, and returns short entries [SBS-33]', async () => {
    const { directory } = await lookups(many)
    const answer = await directory({ mode: 'list' })
    expect(answer).toMatchObject({ kind: 'recent', limit: 10, total: 25, filters: {} })
    expect(answer.bbses).toHaveLength(10)
    expect(answer.bbses[0]).toEqual({
      name: 'Board 24',
      sysop: 'Board 24 Sysop',
      location: '',
      software: 'Mystic',
      address: 'b24.example:23 (telnet)',
      first_online: '2014-01-01',
    })
    expect((await directory({ mode: 'list', limit: 99 })).limit).toBe(30)
  })

  it.each([
    ['recent', 'Board 24', 'Board 23'],
    ['oldest', 'Board 00', 'Board 01'],
    ['active', 'Board 24', 'Board 23'],
    ['reliable', 'Board 00', 'Board 01'],
    ['popular', 'Board 07', 'Board 14'],
    ['name', 'Board 00', 'Board 01'],
  ])('sorts by %s [SBS-33]', async (kind, ...first) => {
    // In another order than any that the test requests.
    const shuffled = many.toSorted((a, b) => String(a['name']).slice(-1).localeCompare(String(b['name']).slice(-1)))
    const { directory } = await lookups(shuffled)
    const { bbses } = await directory({ mode: 'list', kind, limit: 2 })
    expect(bbses.map(({ name }: Answer) => name)).toEqual(first)
  })

  it('filters by parts of software, network, sysop and system, also combined [SBS-33]', async () => {
    const { directory } = await lookups(many)
    const total = async (filters: Json) => (await directory({ mode: 'list', ...filters })).total
    expect(await total({ software: 'SYNCHRO' })).toBe(5)
    expect(await total({ network: 'fido' })).toBe(10)
    expect(await total({ sysop: 'board 07' })).toBe(1)
    expect(await total({ os: 'linux' })).toBe(13)
    expect(await directory({ mode: 'list', software: 'synchronet', network: 'fidonet' })).toMatchObject({
      total: 2,
      filters: { software: 'synchronet', network: 'fidonet' },
    })
    expect(await directory({ mode: 'list', network: 'WWIVnet' })).toEqual({
      kind: 'recent',
      limit: 10,
      total: 0,
      filters: { network: 'WWIVnet' },
      bbses: [],
      note: expect.stringContaining('do not invent one'),
    })
  })

  it('derives the mode from the arguments if it is missing, and does not mix modes [SBS-34]', async () => {
    const { directory } = await lookups(many)
    expect(await directory({ name: 'Board 03' })).toMatchObject({ found: true })
    expect(await directory({ mode: 'search', network: 'fido' })).toMatchObject({ total: 10 })
    expect(await directory({ kind: 'oldest' })).toMatchObject({ kind: 'oldest', total: 25 })
    expect(await directory({ query: 'fsxnet' })).toMatchObject({ total: 15, filters: { network: 'fsxnet' } })
    const fails = (input: Json, message: string) =>
      expect(directory(input)).rejects.toMatchObject({ code: 'E_VALIDATION', message })
    await fails({}, 'The mode is unclear.')
    await fails({ mode: 'lookup' }, 'mode "lookup" needs a name.')
    await fails(
      { mode: 'lookup', name: 'x', network: 'y', limit: 3 },
      'mode "lookup" takes a name alone, not limit, network.',
    )
    await fails({ mode: 'list', name: 'x' }, 'mode "list" takes no name.')
    await fails({ mode: 'list', kind: 'biggest' }, 'Unknown kind: "biggest".')
  })

  it('has a description that says when to call it, and when not', async () => {
    const { app } = await open({ directory_file: 'sample', host_file: 'x.json' })
    const { tools } = await (await connectTo(app)).listTools()
    for (const name of ['bbs__this_bbs', 'bbs__bbs_directory']) {
      const { description } = tools.find((tool) => tool.name === name) as Answer
      expect(description).toMatch(/Call it for/)
      expect(description).toMatch(/do not use it/i)
    }
    const { inputSchema } = tools.find(({ name }) => name === 'bbs__bbs_directory') as Answer
    expect(inputSchema.required).toEqual(['mode'])
    expect(Object.keys(inputSchema.properties)).toEqual([
      'mode',
      'name',
      'kind',
      'limit',
      'software',
      'network',
      'sysop',
    ])
  })
})

describe('a caller of the board', () => {
  it('learns what is here, and which other boards to call', async () => {
    const { port } = await fingerService({
      '?ver': 'Synchronet 3.20',
      '?active-users.json': '[{"name":"Ada","action":"chatting","node":1,"prot":"SSH"}]',
    })
    const { app } = await open(
      { host_file: 'host.json', directory_file: 'list.json', finger: { port, allow_private: true } },
      { 'host.json': board, 'list.json': [synchronet({ network: [{ name: 'FidoNet' }] }), ...boards] },
      { exposure: { mode: 'discovery' } },
    )
    const client = await connectTo(app, 'modern')
    const run = async (name: string, params: Json) =>
      answerOf(await client.callTool({ name: 'execute_tool', arguments: { name, params } })).data
    const { tools } = answerOf(
      await client.callTool({
        name: 'search_tools',
        arguments: { query: 'which bulletin boards are on FidoNet, and who is online there?' },
      }),
    )
    expect(tools[0].name).toBe('bbs.bbs_directory')
    const { bbses, total } = await run('bbs.bbs_directory', { mode: 'list', network: 'fidonet' })
    expect(total).toBe(1)
    const { online_callers } = await run('bbs.bbs_directory', { mode: 'lookup', name: bbses[0].name })
    expect(online_callers).toEqual([{ alias: 'Ada', doing: 'chatting', node: 1, connection: 'SSH' }])
    expect((await run('bbs.this_bbs', { kind: 'doors', section: 'games' })).doors).toHaveLength(2)
  })
})
