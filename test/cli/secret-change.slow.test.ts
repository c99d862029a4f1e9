import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { LISTED } from '../listed-server.ts'
import { cli, place, serveHttp } from '../process.ts'

it('a running Pegboard restarts the servers that use a changed secret, and only those', async () => {
  const at = place()
  const started = join(at.dir, 'started')
  const server = (name: string, env: object) => ({
    ...{ command: '/bin/sh', env },
    args: ['-c', `echo ${name} $TOKEN >> ${started}; exec '${process.execPath}' '${LISTED}' tools.json`],
    cwd: at.dir,
  })
  writeFileSync(
    join(at.dir, 'tools.json'),
    JSON.stringify({ tools: [{ name: 'forecast', description: 'Tells the weather.' }] }),
  )
  const mcpServers = { a: server('a', { TOKEN: '${keyring:TOKEN}' }), b: server('b', {}) }
  writeFileSync(at.config, JSON.stringify({ mcpServers }))
  const env = { ...at.env, PEGBOARD_KEYRING: 'off' }
  const setSecret = (value: string): void =>
    void execFileSync(process.execPath, [cli, 'secret', 'set', 'TOKEN'], { env, input: value })
  const lines = (): readonly string[] =>
    existsSync(started) ? readFileSync(started, 'utf8').trim().split('\n').sort() : []

  setSecret('first')
  await serveHttp({ ...at, env })
  await expect.poll(lines).toEqual(['a first', 'b'])
  setSecret('second')
  await expect.poll(lines).toEqual(['a first', 'a second', 'b'])
})
