import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { bundle } from '../bundled.ts'
import { canLimit } from '../process-limits.ts'

it.runIf(canLimit)(
  'without free descriptors, opening a database fails with a clear error, and the file is not considered missing',
  () => {
    const program = join(temporaryFolder(), 'open.mjs')
    bundle(
      program,
      `import { execFileSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { openDatabase, classifySqliteError } from './src/state/sqlite-driver.ts'
const limit = (most) => execFileSync('prlimit', ['--pid', String(process.pid), '--nofile=' + most + ':'])
const highest = openSync('/dev/null', 'r')
closeSync(highest)
limit(highest + Number(process.argv[2]))
let said = 'open'
try {
  openDatabase(process.argv[3]).close()
} catch (error) {
  said = classifySqliteError(error)
}
process.stdout.write(said)`,
    )
    const ends = [0, 1, 2, 3, 4, 5, 6, 8, 21].map((spare) => {
      const { status, stdout } = spawnSync(process.execPath, [program, String(spare), join(temporaryFolder(), 'x.db')])
      return [spare, status, stdout.toString()]
    })
    for (const [spare, status, said] of ends)
      expect([spare, status, ['open', 'crowded'].includes(String(said)) || said]).toEqual([spare, 0, true])
    expect([ends[0]?.[2], ends.at(-1)?.[2]]).toEqual(['crowded', 'open'])
  },
  60_000,
)
