import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { run } from '../process.ts'
import { calling, saying, scriptedEndpoint } from './endpoint.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/guides/agents.md'), 'utf8')
const programs = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = '']) => code)

/** What each program on the page prints. */
const PRINTED: readonly (readonly (string | RegExp)[])[] = [
  [/'hello__say_hello'/, /false {"message":"Hello, Ada!"}/],
  [/^\{"message":"Hello, Ann!"\}$/m],
  [/^Hello Ada\. 1 \[\]$/m],
  [/^\[ \{ name: 'a', arguments: \{ x: 1 \} \} \] Sure\.$/m],
  [/intent: 'greet'/, /tools: \[ 'web__search' \]/, 'I asked a tool for it.'],
]

describe('the programs in docs/guides/agents.md', () => {
  it('are all tested here', () => expect(programs).toHaveLength(PRINTED.length))

  it.each(PRINTED.map((printed, at) => [at + 1, programs[at], printed] as const))(
    'run: number %i',
    async (_at, code, printed) => {
      const dir = temporaryFolder()
      mkdirSync(join(dir, 'node_modules'))
      symlinkSync(root, join(dir, 'node_modules/pegboard'), 'junction')
      writeFileSync(join(dir, 'mcp.config.json'), '{}')
      writeFileSync(join(dir, 'program.mjs'), String(code))
      const { baseUrl } = await scriptedEndpoint((_body, round) =>
        round === 0 ? calling(['hello__say_hello', { name: 'Ada' }]) : saying('Hello Ada.'),
      )
      const env = { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
      const { stdout } = await run(process.execPath, ['program.mjs'], {
        cwd: dir,
        env: { ...env, OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'key' },
        timeout: 30_000,
      })
      for (const line of printed) expect(stdout).toMatch(line)
    },
  )
})
