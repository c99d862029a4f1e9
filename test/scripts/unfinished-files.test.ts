import { execFile } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it('names the test file whose worker process was killed, and its tests without a result', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-'))
  writeFileSync(
    join(dir, 'killed.test.js'),
    `it('passes', () => {})
    it('kills its worker', () => { process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}) })`,
  )
  const reporter = JSON.stringify(join(import.meta.dirname, '../unfinished-files.ts'))
  writeFileSync(
    join(dir, 'vitest.config.js'),
    `import { UnfinishedFilesReporter } from ${reporter}
    export default { test: { globals: true, reporters: [new UnfinishedFilesReporter()] } }`,
  )
  const vitest = join(import.meta.dirname, '../../node_modules/vitest/vitest.mjs')
  await expect(promisify(execFile)(process.execPath, [vitest, 'run', '--root', dir])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      'killed.test.js: its worker process ended too early. Tests without a result: passes; kills its worker\n',
    ),
  })
})
