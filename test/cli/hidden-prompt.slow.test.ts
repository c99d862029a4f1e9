import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { published, startRegistry } from '../mcp-registry.ts'
import { place } from '../process.ts'
import { inPseudoTerminal } from './pseudo-terminal.ts'

const SECRET = 'hunter2-hunter2'
const hasScript = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '')

describe.runIf(hasScript)('in a real terminal', () => {
  const start = () => {
    const at = place()
    return {
      ...at,
      cwd: at.dir,
      env: { ...at.env, PEGBOARD_KEYRING: 'off' },
      secrets: () => readFileSync(join(at.dir, 'state/secrets.json'), 'utf8'),
    }
  }

  it('pegboard secret set reads a value without showing it', async () => {
    const at = start()
    const { code, screen } = await inPseudoTerminal(
      ['secret', 'set', 'TOKEN'],
      [['Value of TOKEN (not shown): ', `x\u007f${SECRET}`]],
      at,
    )
    expect([code, screen]).toEqual([0, expect.stringContaining('TOKEN is stored in a file only you can read.')])
    expect(screen).not.toContain('hunter2')
    expect(at.secrets()).toContain(`"value": "${SECRET}"`)
  })

  it('pegboard add asks for a secret without showing it, and for other values visibly', async () => {
    const environmentVariables = [
      { name: 'WEATHER_TOKEN', isRequired: true, isSecret: true },
      { name: 'UNITS', isRequired: true },
    ]
    const one = { registryType: 'npm', identifier: 'weather-mcp', version: '1.2.3', transport: { type: 'stdio' } }
    const { url } = await startRegistry([
      published({ name: 'io.github.ann/weather', version: '1.2.3', packages: [{ ...one, environmentVariables }] }),
    ])
    const at = start()
    const { code, screen } = await inPseudoTerminal(
      ['add', 'io.github.ann/weather', '--registry', url, '--sandbox', 'none', '--config', at.config],
      [
        ['WEATHER_TOKEN (required, secret)', SECRET],
        ['UNITS (required)', 'metric'],
        [`to ${at.config}, and start it? [y/N]`, 'n'],
      ],
      at,
    )
    expect([code, screen]).toEqual([1, expect.stringContaining('Nothing was added.')])
    expect(screen).toContain('metric')
    expect(screen).toContain('${keyring:weather.WEATHER_TOKEN}')
    expect(screen).not.toContain('hunter2')
  })
})
