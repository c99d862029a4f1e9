import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as agent from '../src/agent.ts'
import { commands } from '../src/cli/commands.ts'
import { fileSchema } from '../src/config/config-schema.ts'
import { errorCatalogue } from '../src/core/errors.ts'
import * as library from '../src/index.ts'
import { META_NAMES } from '../src/meta/surface.ts'
import { run } from './process.ts'

// The public API, besides the settings and error codes, which generated files list. A change here changes a promise, so it
// needs a line in the changelog.
const pinned = {
  exports: [
    'PegboardError',
    'ToolContext',
    'ToolError',
    'bubblewrapBase',
    'compileGlob',
    'createApp',
    'createConnect',
    'createFetch',
    'createPaths',
    'createSemaphore',
    'defineModule',
    'errorCatalogue',
    'exclusively',
    'failureClasses',
    'fileToOpen',
    'isPegboardError',
    'ownFilesBelow',
    'parseJson',
    'redact',
    'redactUrl',
    'removeInvisible',
    'scrub',
    'toSchema',
    'z',
  ],
  agentExports: [
    'TOOL_FORMATS',
    'createCitations',
    'createIntentRouter',
    'createToolLoop',
    'createToolset',
    'parseToolCalls',
    'runConversation',
    'serializeTools',
    'startApp',
    'stripToolNames',
    'systemPrompt',
    'toolUseMode',
    'urlsIn',
  ],
  metaTools: [
    'search_tools',
    'get_tool',
    'execute_tool',
    'list_categories',
    'browse_category',
    'run_code',
    'run_parallel',
    'background_run',
    'background_status',
    'background_result',
    'background_wait',
    'background_cancel',
    'background_list',
    'watch_start',
    'watch_stop',
    'watch_pause',
    'watch_resume',
    'watch_status',
    'watch_list',
    'watch_history',
    'schedule_once',
    'schedule_cron',
    'schedule_cancel',
    'schedule_list',
    'schedule_status',
    'remind',
    'remember',
    'forget',
    'read_result',
    'request_tool_injection',
    'clear_injected_tools',
    'list_all_tools',
    'reload_tools',
    'check_task',
    'await_result',
    'redirect_task',
    'list_active_servers',
    'extend_tool_loop',
    'retrieve_tool_call_log',
    'run_text',
    'set_turn',
    'set_flag',
  ],
  commands: [
    'init',
    'serve',
    'ui',
    'top',
    'list',
    'search',
    'why',
    'call',
    'record',
    'check',
    'doctor',
    'review',
    'registry',
    'add',
    'enable',
    'disable',
    'remove',
    'schema',
    'prompt',
    'parse',
    'eval',
    'suggest',
    'auth',
    'token',
    'undo',
    'config',
    'secret',
    'audit',
    'usage',
    'later',
    'completion',
  ],
}

describe('the public surface', () => {
  it('of the package', () => expect(Object.keys(library).sort()).toEqual(pinned.exports.toSorted()))
  it('of pegboard/agent', () => expect(Object.keys(agent).sort()).toEqual(pinned.agentExports.toSorted()))
  it('has these meta-tools', () => expect(META_NAMES).toEqual(pinned.metaTools))
  it('has these commands', () => expect(commands.map(({ name }) => name)).toEqual(pinned.commands))
})

describe('the documentation', () => {
  const read = (file: string): string => readFileSync(join(import.meta.dirname, '..', file), 'utf8')
  it('covers every error code, on a page linked from the README', () => {
    expect(read('README.md')).toContain('(docs/reference/errors.md)')
    const errors = read('docs/reference/errors.md')
    for (const code of Object.keys(errorCatalogue)) expect(errors).toContain(`\`${code}\``)
  })
  it('covers every configuration key, on a page linked from the README', () => {
    expect(read('README.md')).toContain('(docs/reference/settings.md)')
    const settings = read('docs/reference/settings.md')
    for (const key of Object.keys(fileSchema.shape).filter((name) => name !== '$schema' && name !== 'servers'))
      expect(settings, key).toMatch(new RegExp(`\`${key}[\`.]`))
  })
})

describe('generated files', () => {
  it('are current: coverage, tables, configuration schema', async () => {
    const cwd = join(import.meta.dirname, '..')
    await run(process.execPath, ['scripts/coverage.mjs', '--check'], { cwd })
    await run(process.execPath, ['scripts/run-ts.mjs', 'scripts/docs.ts', '--check'], { cwd })
  })
})

describe('every error code', () => {
  it('is used somewhere', async () => {
    const { readdirSync } = await import('node:fs')
    const root = join(import.meta.dirname, '..')
    const sources = ['src', 'modules'].flatMap((dir) =>
      readdirSync(join(root, dir), { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => join(root, dir, file)),
    )
    const text = sources
      .filter((file) => !file.endsWith('core/errors.ts'))
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n')
    const unused = Object.keys(errorCatalogue).filter((code) => !text.includes(`'${code}'`))
    expect(unused).toEqual([])
  })
})
