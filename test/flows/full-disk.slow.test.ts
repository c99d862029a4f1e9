import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Answer } from '../app.ts'
import { cli, place } from '../process.ts'
import { canMount, NAMESPACE } from '../small-disk.ts'

/** A server whose modules write to a disk of 64 MB, of which a twentieth stays free. */
async function serveOnDisk() {
  const { dir, config } = place({
    exposure: { mode: 'direct' },
    modules: {
      filesystem: { config: { roots: ['{{workspace}}/data'] } },
      database: {
        config: {
          connections: {
            notes: { driver: 'sqlite', database: 'data/notes.db', policy: 'unrestricted', options: { create: true } },
          },
        },
      },
    },
  })
  const data = join(dir, 'data')
  mkdirSync(data)
  const client = new Client({ name: 'greedy', version: '1' })
  const serve = 'mount -t tmpfs -o size=64m,mode=700 tmpfs "$0" && exec "$@"'
  await client.connect(
    new StdioClientTransport({
      command: 'unshare',
      args: [...NAMESPACE, 'sh', '-c', serve, data, process.execPath, cli, 'serve', '--stdio', '--config', config],
      env: { PATH: process.env['PATH'] ?? '', HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
      stderr: 'ignore',
    }),
  )
  onTestFinished(() => client.close())
  return async (name: string, params: Record<string, unknown>) =>
    (await client.callTool({ name, arguments: params })) as Answer
}

describe.skipIf(!canMount)('a disk that modules fill', () => {
  it('keeps a twentieth free when files are written', async () => {
    const call = await serveOnDisk()
    const content = 'x'.repeat(3_000_000)
    const write = async (n: number) => await call('filesystem__write', { path: `${n}.txt`, content })
    for (let n = 0; n < 21; n++) expect(await write(n), String(n)).not.toHaveProperty('isError', true)
    expect(JSON.stringify(await write(21))).toContain('could not be written: no space is left')
    const again = { path: '0.txt', content, append: true }
    expect(JSON.stringify(await call('filesystem__write', again))).toContain('no space is left')
    expect(await call('filesystem__rm', { path: '1.txt' })).not.toHaveProperty('isError', true)
    expect(await call('filesystem__write', again)).not.toHaveProperty('isError', true)
  }, 30_000)

  it('keeps a twentieth free when a statement of SQLite adds rows, and rolls the statement back', async () => {
    const call = await serveOnDisk()
    const execute = (sql: string) => call('database__execute', { sql })
    expect(await execute('CREATE TABLE t (a)')).not.toHaveProperty('isError', true)
    const rows = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) '
    expect(JSON.stringify(await execute(`INSERT INTO t ${rows} SELECT randomblob(1000) FROM n`))).toContain(
      'The statement was stopped: the disk is nearly full.',
    )
    const { structuredContent } = await call('database__query', { sql: 'SELECT count(*) AS n FROM t' })
    expect(structuredContent).toMatchObject({ rows: [{ n: 0 }] })
    expect(await execute('INSERT INTO t VALUES (1)')).not.toHaveProperty('isError', true)
  }, 30_000)
})
