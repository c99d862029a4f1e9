/**
 * Draws docs/tokens.svg from a real run: one question is answered with 300 tools listed and with Pegboard's search, and the
 * tokens that the model reads are counted. Run `npm run build` first, then `npm run picture`.
 */
import { writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { makeFleet } from '../bench/catalogue.mjs'
import { inFolder, serversOf, startPegboard, untilReady, writeConfig } from '../bench/pegboard.mjs'

const QUESTION = 'show me the latest invoices'
/** Each server has one tool more than it is asked to make. */
const FLEET = makeFleet(15, 285)
const LISTED = 300

const tokensOf = (value) => countTokens(typeof value === 'string' ? value : JSON.stringify(value))
const textOf = ({ content }) => content.map(({ text }) => text).join('\n')
const definition = ({ name, description, inputSchema }) => ({ name, description, inputSchema })

/** Answers the question in one exposure mode. Returns the tokens of each part of the conversation. */
const answerIn = (mode) =>
  inFolder(async (folder) => {
    const config = await writeConfig(folder, serversOf(FLEET), {
      exposure: { mode, primitives: false },
      modules: Object.fromEntries(['filesystem', 'hello', 'mcp'].map((name) => [name, { enabled: false }])),
    })
    const client = startPegboard({ config, state: await mkdtemp(join(folder, 'state-')), cwd: folder })
    try {
      const { instructions = '' } = await client.connect()
      await untilReady(client, FLEET)
      const tools = await client.listTools()
      const parts = [
        { name: `${tools.length} tool definitions`, tokens: tokensOf(tools.map(definition)) + tokensOf(instructions) },
      ]
      const call = async (name, args, expected = '') => {
        const result = await client.request('tools/call', { name, arguments: args })
        if (result.isError || !textOf(result).includes(expected)) throw new Error(`${name}: ${textOf(result)}`)
        return tokensOf({ name, args }) + tokensOf(textOf(result))
      }
      if (mode === 'direct') {
        const tool = tools.find(({ name }) => name === 'billing__list_invoice')
        parts.push({ name: 'call and result', tokens: await call(tool.name, {}) })
      } else {
        parts.push({ name: 'search', tokens: await call('search_tools', { query: QUESTION }, 'list_invoice') })
        parts.push({
          name: 'call and result',
          tokens: await call('execute_tool', { name: 'billing__list_invoice', params: {} }),
        })
      }
      return parts
    } finally {
      await client.close()
    }
  })

const total = (parts) => parts.reduce((sum, { tokens }) => sum + tokens, 0)
const number = (value) => value.toLocaleString('en-US')

const WIDTH = 760
const BAR = 520
function draw(rows) {
  const most = Math.max(...rows.map(({ parts }) => total(parts)))
  const bars = rows.map(({ name, parts, color }, index) => {
    const y = 64 + index * 76
    const width = Math.max(3, Math.round((BAR * total(parts)) / most))
    const detail = parts.map((part) => `${part.name} ${number(part.tokens)}`).join(' + ')
    return `<text x="24" y="${y}" class="name">${name}</text>
<rect x="24" y="${y + 10}" width="${width}" height="22" rx="4" fill="${color}"/>
<text x="${24 + width + 10}" y="${y + 27}" class="sum">${number(total(parts))} tokens</text>
<text x="24" y="${y + 50}" class="detail">${detail}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="220" viewBox="0 0 ${WIDTH} 220" role="img" aria-label="Tokens the model reads to answer one question: ${rows.map(({ name, parts }) => `${name}: ${number(total(parts))}`).join('; ')}">
<style>text{font-family:system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}.name,.sum{font-size:14px}.sum{font-weight:600}.detail{font-size:12px;fill:#57606a}</style>
<rect width="${WIDTH}" height="220" rx="8" fill="#fff"/>
<text x="24" y="32" class="title">“${QUESTION}” with ${number(LISTED)} tools of ${FLEET.length} servers</text>
${bars.join('\n')}
</svg>
`
}

const rows = [
  { name: 'All tools listed', parts: await answerIn('direct'), color: '#cf8a7c' },
  { name: 'With Pegboard', parts: await answerIn('discovery'), color: '#3d8b66' },
]
writeFileSync(new URL('../docs/tokens.svg', import.meta.url), draw(rows))
for (const { name, parts } of rows) process.stdout.write(`${name}: ${number(total(parts))} tokens\n`)
