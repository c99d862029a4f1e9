import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { startApp } from '../app.ts'
import { cli, place } from '../process.ts'

describe('a module that the configuration names', () => {
  it('is switched on where it needs nothing, and not where it says that it is off', async () => {
    const named = { archives: {}, context: {}, memory: {}, relay: {} }
    const { app } = await startApp({ modules: named })
    for (const id of Object.keys(named)) expect([id, app.view(localCaller).count(id) > 0]).toEqual([id, true])
    const off = await startApp({ modules: { archives: { config: { enabled: false } } } })
    expect(off.app.view(localCaller).count('archives')).toBe(0)
    const none = await startApp({})
    for (const id of Object.keys(named)) expect([id, none.app.view(localCaller).count(id)]).toEqual([id, 0])
  })

  it('says at the start and in check what it needs where it gives no tools', async () => {
    const { logged } = await startApp({ modules: { bbs: {}, shell: {} } })
    const bbs =
      'modules.bbs is configured and gives no tools: set modules.bbs.config.host_file, modules.bbs.config.provider or modules.bbs.config.directory_file.'
    expect(logged.join('\n')).toContain(bbs)
    expect(logged.join('\n')).toContain(
      'modules.shell is configured and gives no tools: set modules.shell.config.enabled to true.',
    )
    const { config, env } = place({ modules: { bbs: {}, archives: {} } })
    const { stdout } = spawnSync(process.execPath, [cli, 'check', '--config', config], { env, encoding: 'utf8' })
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(bbs)
    expect(stdout).not.toContain('modules.archives is configured')
  })
})
