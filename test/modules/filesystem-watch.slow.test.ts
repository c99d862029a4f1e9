import { appendFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { soonest } from '../security/lag.ts'
import { startModule } from './start-module.ts'

async function open(files: Readonly<Record<string, string>>, config: Record<string, unknown> = {}) {
  const { root, run } = await startModule('filesystem', config, files)
  const watch = (input: unknown): Promise<unknown> => run('filesystem.watch', input)
  return { root, watch, at: (name: string) => join(root, name) }
}

/** Long enough for one check. */
const begun = (): Promise<void> => sleep(1_500)
/** Leaves time for a check between two changes. */
const between = (): Promise<void> => sleep(400)

describe('watching a folder', () => {
  it('reports what happened to each entry, and nothing that is unchanged', async () => {
    const { watch, at } = await open({
      'src/a.txt': 'one',
      'src/b.txt': 'two',
      'src/deep/c.txt': 'three',
      'other.txt': '',
    })
    const told = watch({ path: 'src', quiet_ms: 3_000 })
    await begun()
    await rm(at('src/a.txt'))
    await writeFile(at('src/deep/new.txt'), '')
    await writeFile(at('src/passing.tmp'), '')
    await appendFile(at('src/deep/c.txt'), '!')
    await writeFile(at('other.txt'), 'is not in it')
    await between()
    await rm(at('src/passing.tmp'))
    const { changes } = (await told) as { changes: { path: string; change: string }[] }
    expect(changes.sort((a, b) => (a.path < b.path ? -1 : 1))).toEqual([
      { path: 'src/a.txt', change: 'deleted' },
      { path: 'src/deep/c.txt', change: 'modified' },
      { path: 'src/deep/new.txt', change: 'created' },
    ])
  }, 60_000)

  it('says if nothing changed in time', async () => {
    const { watch } = await open({ 'a.txt': 'one' })
    expect(await watch({ path: '.', timeout: 1 })).toEqual({ path: '.', changes: [], total: 0, timed_out: true })
  })
})

it('answers in time even if scanning the folder is slow', async () => {
  const { watch } = await open(Object.fromEntries(Array.from({ length: 4_500 }, (_, n) => [`many/${n}.txt`, ''])))
  const took = await soonest(2_500, async () => {
    const asked = performance.now()
    expect(await watch({ path: 'many', timeout: 1 })).toMatchObject({ timed_out: true, total: 0 })
    return performance.now() - asked
  })
  expect(took).toBeLessThan(2_500)
})
