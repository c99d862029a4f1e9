import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { makeFleet } from './catalogue.mjs'
import { table } from './measure.mjs'
import { inFolder, serversOf, startPegboard, untilReady, writeConfig } from './pegboard.mjs'

const FIVE = ['search_tools', 'get_tool', 'execute_tool', 'list_categories', 'browse_category']
const FLEET = makeFleet(10, 200)

/** What a model is shown of a tool. */
const shown = ({ name, description, inputSchema }) => ({ name, description, inputSchema })
const tokensOf = (tools) => countTokens(JSON.stringify(tools.map(shown)))

async function listIn(folder, mode) {
  const config = await writeConfig(folder, serversOf(FLEET), { exposure: { mode } })
  const client = startPegboard({ config, state: await mkdtemp(join(folder, 'state-')), cwd: folder })
  try {
    const { instructions = '' } = await client.connect()
    await untilReady(client, FLEET)
    return { tools: await client.listTools(), instructions }
  } finally {
    await client.close()
  }
}

/** o200k tokens of the menus: the five, everything discovery lists, and for comparison everything there is. */
export const measureTokens = () =>
  inFolder(async (folder) => {
    const discovery = await listIn(folder, 'discovery')
    const direct = await listIn(folder, 'direct')
    const five = discovery.tools.filter((tool) => FIVE.includes(tool.name))
    const all = tokensOf(direct.tools)
    const row = (what, tools, goal) => ({
      menu: what,
      tools: tools.length,
      tokens: tokensOf(tools),
      '× all tools': tokensOf(tools) / all,
      'at most': goal,
    })
    const rows = [
      ...five.map((tool) => row(`  ${tool.name}`, [tool], '')),
      row('the five', five, '300'),
      row('all that discovery lists', discovery.tools, '900'),
      row('every tool (direct)', direct.tools, ''),
      {
        menu: 'instructions in discovery',
        tools: '',
        tokens: countTokens(discovery.instructions),
        '× all tools': countTokens(discovery.instructions) / all,
        'at most': '',
      },
    ]
    return { rows, text: table('Menus, in o200k tokens (ten servers, 210 tools, and the bundled modules)', rows) }
  })
