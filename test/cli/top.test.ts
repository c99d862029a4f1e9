import { expect, it } from 'vitest'
import { formatScreen, formatState } from '../../src/cli/top.ts'
import type { Overview } from '../../src/ui/api-types.ts'

const overview: Overview = {
  version: '1.2.3',
  url: 'http://127.0.0.1:3333',
  profiles: ['default'],
  mode: 'discovery',
  why: '',
  tools: 120,
  hidden: 0,
  listed: 1_000,
  spent: { calls: 3, tokens: 1_000, direct: 20_000 },
  servers: 1,
  failing: 1,
  toReview: 2,
  calls: { total: 3, failed: 1, running: 0, lastMinute: 3 },
  clients: 0,
}
const call = {
  id: '1',
  at: 0,
  tool: 'mcp_github.list_issues',
  owner: 'mcp_github',
  client: 'claude-code 2.1.0',
  principal: 'local',
  profile: 'default',
  ms: 41,
  outcome: 'ok',
  replayable: true,
} as const

it('shows what a client is spared, then servers and the latest calls', () => {
  const owners = [
    {
      id: 'mcp_github',
      kind: 'server',
      state: 'failing',
      reason: 'it exited',
      summary: '',
      tools: 12,
      tokens: 900,
      actions: [],
    },
  ] as const
  expect(formatState({ overview, owners, clients: [], calls: [call] }, 40)).toEqual([
    'Pegboard 1.2.3 at http://127.0.0.1:3333',
    '120 tools in discovery mode: a client lists about 1000 tokens',
    'Tokens since the start: 1000, 19000 (95 %) less than without Pegboard',
    'Calls: 3 in all, 1 failed, 0 running, 3 in the last minute',
    '2 tools wait for a review: pegboard review',
    '',
    'Servers',
    'NAME        STATE    TOOLS  TOKENS  REASON',
    'mcp_github  failing  12     900     it exited',
    '',
    'Clients: none is connected to this server. A client that starts Pegboard over stdio has its own process, which is not shown here.',
    'To see a client here, connect it to http://127.0.0.1:3333/mcp.',
    '',
    'Latest calls',
    'TIME      TOOL                    CLIENT             MS  OUTCOME',
    '00:00:00  mcp_github.list_issues  claude-code 2.1.0  41  ok',
  ])
})

it('shows what clients have cost, also if that is more than without Pegboard', () => {
  const client = { id: 'c', name: 'a 1', principal: 'local', profile: 'default', protocol: '2025', mode: 'direct' }
  const clients = [
    { ...client, tools: 3, spent: { calls: 2, tokens: 300, direct: 400 } },
    { ...client, name: 'b 1', tools: 3 },
  ]
  const seen = {
    overview: { ...overview, spent: { calls: 2, tokens: 300, direct: 200 } },
    owners: [],
    clients,
    calls: [],
  }
  expect(formatState(seen, 40).filter((line) => /^(Tokens|NAME|[ab] 1)/.test(line))).toEqual([
    'Tokens since the start: 300, 100 more than without Pegboard',
    'NAME  PRINCIPAL  PROTOCOL  MODE    TOOLS  TOKENS  SAVED',
    'a 1   local      2025      direct  3      300     25 %',
    'b 1   local      2025      direct  3      –       –',
  ])
})

it('fits the screen, and lets no text of a client control the terminal', () => {
  const hostile = { ...call, client: '\u001b[2Jevil' }
  const screen = formatScreen(
    { overview, owners: [], clients: [], calls: Array.from({ length: 50 }, () => hostile) },
    60,
    12,
  )
  expect(screen.split('\r\n')).toHaveLength(12)
  expect(screen).not.toContain('\u001b[2J')
})
