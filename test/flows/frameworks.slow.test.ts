import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Call, calling, saying, scriptedEndpoint } from '../agent/endpoint.ts'
import { temporaryFolder } from '../app.ts'
import { run } from '../process.ts'

const root = join(import.meta.dirname, '../..')
const optional = (name: string): string => join(root, 'test/optional/node_modules', name)

const EXAMPLES: readonly (readonly [string, readonly string[]])[] = [
  ['openai.mjs', ['openai']],
  ['ai-sdk.mjs', ['ai', '@ai-sdk/openai-compatible']],
  ['langchain.mjs', ['@langchain/core', '@langchain/openai']],
]
const missing = EXAMPLES.flatMap(([, packages]) => packages).filter((name) => !existsSync(optional(name)))
if (missing.length > 0 && !process.env['CI'])
  process.stderr.write(
    `skipped: examples for frameworks; npm ci --prefix test/optional installs ${missing.join(', ')}\n`,
  )

/** A user project with these packages installed. */
function project(example: string, packages: readonly string[]): string {
  const dir = temporaryFolder()
  const installed = [['pegboard', root], ...packages.map((name) => [name, optional(name)])] as [string, string][]
  for (const [name, target] of installed) {
    const link = join(dir, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(target, link, 'junction')
  }
  copyFileSync(join(root, 'examples', example), join(dir, example))
  return dir
}

/** Runs an example with a model that calls two tools and then repeats their results. */
async function ask(example: string, packages: readonly string[], settings: object, ...calls: readonly Call[]) {
  const dir = project(example, packages)
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify(settings))
  const { baseUrl, requests, authorization } = await scriptedEndpoint((body, round) => {
    if (round === 0) return calling(...calls)
    const results = body.messages.filter(({ role }: { role: string }) => role === 'tool')
    return saying(results.map(({ content }: { content: string }) => content).join(' | '))
  })
  const env = {
    PATH: process.env['PATH'],
    HOME: dir,
    PEGBOARD_STATE_DIR: join(dir, 'state'),
    OPENAI_BASE_URL: baseUrl,
    OPENAI_API_KEY: 'key',
    MODEL: 'scripted',
  }
  const args = [example, 'Greet Ada and Bob.', 'mcp.config.json']
  const { stdout } = await run(process.execPath, args, { cwd: dir, env, timeout: 60_000 })
  return { stdout, requests, authorization }
}

// In CI the packages must be installed, so the tests run and fail without them.
describe.skipIf(missing.length > 0 && !process.env['CI']).each(EXAMPLES)('examples/%s', (example, packages) => {
  it('calls tools in the framework and returns the answer', { timeout: 120_000 }, async () => {
    const { stdout, requests, authorization } = await ask(
      example,
      packages,
      {},
      ['hello__say_hello', { name: 'Ada' }],
      ['hello__say_hello', { nom: 'Bob' }],
    )
    const [greeted, refused] = stdout.split(' | ')
    expect(greeted).toContain('Ada')
    expect(refused).toMatch(/^E_VALIDATION: Invalid params for hello\.say_hello/)
    expect(requests).toHaveLength(2)
    expect(authorization).toEqual(['Bearer key', 'Bearer key'])
    const [{ messages, tools, model }] = requests
    expect(model).toBe('scripted')
    expect(messages[0].role).toBe('system')
    expect(JSON.stringify(messages[0].content)).toContain('You are greeter, role: assistant.')
    const greet = tools.find((tool: { function: { name: string } }) => tool.function.name === 'hello__say_hello')
    expect(greet.function.parameters).toMatchObject({ type: 'object', properties: { name: { type: 'string' } } })
  })

  it('finds and runs tools that are not listed', { timeout: 120_000 }, async () => {
    const { stdout, requests } = await ask(
      example,
      packages,
      { exposure: { mode: 'discovery', primitives: false } },
      ['search_tools', { query: 'greet somebody by name' }],
      ['execute_tool', { name: 'hello.say_hello', params: { name: 'Ada' } }],
    )
    expect(requests[0].tools).toHaveLength(5)
    expect(requests[0].messages[0].content).toContain('1. Discover it: search_tools')
    const [found, ran] = stdout.split(' | ')
    expect(found).toContain('hello.say_hello')
    expect(ran).toContain('Ada')
  })
})
