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

// The public API. A change here changes a promise, so it needs a line in the changelog.
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
  configKeys: [
    '$schema',
    'server',
    'modulesDir',
    'autoload',
    'modules',
    'registry',
    'search',
    'exposure',
    'textTools',
    'policy',
    'execution',
    'tools',
    'profiles',
    'clients',
    'dirs',
    'state',
    'loader',
    'services',
    'inputs',
    'openapi',
    'mcpServers',
    'servers',
    'audit',
    'log',
    'telemetry',
  ],
  codes: [
    'E_VALIDATION',
    'E_INT_PRECISION',
    'E_NOT_FOUND',
    'E_TOOL_HIDDEN',
    'E_TOOL_DISABLED',
    'E_TOOL_FAILED',
    'E_TOOL_CHANGED',
    'E_TOOL_QUARANTINED',
    'E_LOOP_DETECTED',
    'E_LOOP_LIMIT',
    'E_CANNOT_ASK',
    'E_CONFIRMATION_REQUIRED',
    'E_CONFIRMATION_DECLINED',
    'E_RATE_LIMITED',
    'E_SCRIPT_FAILED',
    'E_SECRET_BLOCKED',
    'E_READ_ONLY_CONTRACT',
    'E_LOADING',
    'E_OVERLOADED',
    'E_SHUTTING_DOWN',
    'E_TIMEOUT',
    'E_CANCELLED',
    'E_TOO_LARGE',
    'E_INTERNAL',
    'E_UPSTREAM_UNAVAILABLE',
    'E_CIRCUIT_OPEN',
    'E_UPSTREAM_PROTOCOL',
    'E_NOT_RECORDED',
    'E_BACKEND_UNAVAILABLE',
    'E_OWNER_GONE',
    'E_SCHEDULE_INVALID',
    'E_WATCH_LIMIT',
    'E_AUTH_REQUIRED',
    'E_SSRF_BLOCKED',
    'E_DNS',
    'E_TLS',
    'E_HTTP_PROTOCOL',
    'E_REDIRECT_BLOCKED',
    'E_AUTH_FAILED',
    'E_STATE',
    'E_STATE_UNAVAILABLE',
    'E_PATH_OUTSIDE_ROOT',
    'E_PATH_DENIED',
    'E_NOT_REGULAR_FILE',
    'E_READ_ONLY',
    'E_DENIED_BY_POLICY',
    'E_SQL_MULTI_STATEMENT',
    'E_DB_BUSY',
    'E_DB_CORRUPT',
    'E_DB_UNAVAILABLE',
    'E_REGISTRY_ENTRY',
    'E_REGISTRY_UNAVAILABLE',
    'E_SANDBOX_UNAVAILABLE',
    'E_USAGE',
    'E_MODULE_LOAD',
    'E_MODULE_SHAPE',
    'E_MODULE_CONFIG',
    'E_CONFIG_SYNTAX',
    'E_CONFIG_WRITABLE',
    'E_CONFIG_INVALID',
    'E_RECORDING',
    'E_ADDRESS_UNAVAILABLE',
    'E_CONFIG_MISSING',
    'E_CONFIG_AUTH',
    'E_CONFIG_OPENAPI',
    'E_EDIT_SYNTAX',
    'E_EDIT_STALE',
    'E_EDIT_UNSAFE',
    'E_UNDO_MISSING',
    'E_NAME_TAKEN',
    'E_NAME_INVALID',
  ],
}

describe('the public surface', () => {
  it('of the package', () => expect(Object.keys(library).sort()).toEqual(pinned.exports.toSorted()))
  it('of pegboard/agent', () => expect(Object.keys(agent).sort()).toEqual(pinned.agentExports.toSorted()))
  it('has these meta-tools', () => expect(META_NAMES).toEqual(pinned.metaTools))
  it('has these commands', () => expect(commands.map(({ name }) => name)).toEqual(pinned.commands))
  it('has these configuration keys', () =>
    expect(Object.keys(fileSchema.shape).sort()).toEqual(pinned.configKeys.toSorted()))
  it('has these error codes', () => expect(Object.keys(errorCatalogue).sort()).toEqual(pinned.codes.toSorted()))
})

describe('the documentation', () => {
  const read = (file: string): string => readFileSync(join(import.meta.dirname, '..', file), 'utf8')
  it('covers every error code, on a page linked from the README', () => {
    expect(read('README.md')).toContain('(docs/reference/errors.md)')
    const errors = read('docs/reference/errors.md')
    for (const code of pinned.codes) expect(errors).toContain(`\`${code}\``)
  })
  it('covers every configuration key, on a page linked from the README', () => {
    expect(read('README.md')).toContain('(docs/reference/settings.md)')
    const settings = read('docs/reference/settings.md')
    for (const key of pinned.configKeys.filter((name) => name !== '$schema' && name !== 'servers'))
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
    const unused = pinned.codes.filter((code) => !text.includes(`'${code}'`))
    expect(unused).toEqual([])
  })
})
