import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { startApp } from '../app.ts'
import { cli, place } from '../process.ts'

describe('a module named in the configuration', () => {
  it('is enabled if it needs nothing else, unless the configuration disables it', async () => {
    const named = { archives: {}, context: {}, memory: {}, relay: {} }
    const { app } = await startApp({ modules: named })
    for (const id of Object.keys(named)) expect([id, app.view(localCaller).count(id) > 0]).toEqual([id, true])
    const off = await startApp({ modules: { archives: { config: { enabled: false } } } })
    expect(off.app.view(localCaller).count('archives')).toBe(0)
    const none = await startApp({})
    for (const id of Object.keys(named)) expect([id, none.app.view(localCaller).count(id)]).toEqual([id, 0])
  })

  it('reports at start and in check what it needs if it has no tools', async () => {
    const { logged } = await startApp({ modules: { bbs: {}, shell: {} } })
    const bbs =
      'modules.bbs is configured but has no tools: set modules.bbs.config.host_file, modules.bbs.config.provider or modules.bbs.config.directory_file.'
    expect(logged.join('\n')).toContain(bbs)
    expect(logged.join('\n')).toContain(
      'modules.shell is configured but has no tools: set modules.shell.config.enabled to true.',
    )
    const { config, env } = place({ modules: { bbs: {}, archives: {} } })
    const { stdout } = spawnSync(process.execPath, [cli, 'check', '--config', config], { env, encoding: 'utf8' })
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(bbs)
    expect(stdout).not.toContain('modules.archives is configured')
  })
})
