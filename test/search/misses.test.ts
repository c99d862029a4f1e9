import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { clearMisses, createMissRecorder, readMisses } from '../../src/search/misses.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

function start() {
  const clock = createManualClock(1_000_000)
  const file = join(temporaryFolder(), 'search', 'misses.jsonl')
  const errors: unknown[] = []
  const recorder = createMissRecorder({
    file,
    clock,
    hide: (text) => text.replaceAll('hunter2', '[hidden]'),
    onError: (error) => errors.push(error),
  })
  const kept = () => readMisses(file, clock.now()).map(({ at: _, ...rest }) => rest)
  return { clock, file, recorder, kept, errors }
}

describe('misses', () => {
  it('keeps a query after which a lower-ranked tool was called, with its rank', () => {
    const { recorder, kept } = start()
    recorder.searched('a', [{ query: 'add tasks to the list', ids: ['todo.rename', 'todo.split', 'todo.add'] }])
    recorder.called('a', 'todo.add')
    expect(kept()).toEqual([{ query: 'add tasks to the list', called: 'todo.add', rank: 3 }])
  })

  it('keeps the tool that was called instead of all that a search showed', () => {
    const { recorder, kept } = start()
    recorder.searched('a', [{ query: 'put milk down', ids: ['fs.write'] }])
    recorder.called('a', 'todo.add')
    recorder.called('a', 'time.now')
    recorder.close()
    expect(kept()).toEqual([{ query: 'put milk down', called: 'todo.add' }])
  })

  it('keeps nothing if the first result was called, whatever was called before and after', () => {
    const { recorder, kept } = start()
    recorder.searched('a', [{ query: 'add a task', ids: ['todo.add', 'todo.split'] }])
    recorder.called('a', 'time.now')
    recorder.called('a', 'todo.add')
    recorder.called('a', 'todo.split')
    recorder.close()
    expect(kept()).toEqual([])
  })

  it('keeps a query that no call followed, when the session ends or ten minutes pass', () => {
    const { clock, recorder, kept } = start()
    recorder.searched('a', [{ query: 'book a flight', ids: ['time.now'] }])
    recorder.searched('b', [{ query: 'book a hotel', ids: [] }])
    recorder.forget('a')
    expect(kept()).toEqual([{ query: 'book a flight' }])
    clock.pass(11 * 60_000)
    recorder.called('b', 'time.now')
    expect(kept()).toEqual([{ query: 'book a flight' }, { query: 'book a hotel' }])
  })

  it('counts a call only for the searches that showed the tool, or else for the last one', () => {
    const { recorder, kept } = start()
    recorder.searched('a', [{ query: 'get a file', ids: ['http.get', 'http.download'] }])
    recorder.searched('a', [{ query: 'delete the photo', ids: ['fs.rm'] }])
    recorder.searched('a', [{ query: 'download a file', ids: ['http.download', 'http.get'] }])
    recorder.called('a', 'http.download')
    expect(kept()).toEqual([{ query: 'get a file', called: 'http.download', rank: 2 }])
    recorder.searched('a', [{ query: 'send an email', ids: [] }])
    recorder.called('a', 'mail.send')
    recorder.close()
    expect(kept().slice(1)).toEqual([{ query: 'delete the photo' }, { query: 'send an email', called: 'mail.send' }])
  })

  it('keeps sessions and the needs of one search apart', () => {
    const { recorder, kept } = start()
    recorder.searched('a', [
      { query: 'commit', ids: ['gitlab.commit', 'git.commit'] },
      { query: 'push', ids: ['git.push'] },
    ])
    recorder.called('b', 'git.commit')
    recorder.called('a', 'git.push')
    recorder.called('a', 'git.commit')
    expect(kept()).toEqual([{ query: 'commit', called: 'git.commit', rank: 2 }])
  })

  it('removes secrets, and only the user can read the file', () => {
    const { recorder, file, kept } = start()
    recorder.searched('a', [{ query: 'log in with hunter2', ids: [] }])
    recorder.close()
    expect(kept()).toEqual([{ query: 'log in with [hidden]' }])
    expect(readFileSync(file, 'utf8')).not.toContain('hunter2')
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('keeps at most a thousand queries, for ninety days', async () => {
    const { clock, file, recorder } = start()
    const long = 'x'.repeat(480)
    for (let n = 0; n < 1_500; n++) {
      recorder.searched(`s${n}`, [{ query: `${n} ${long}`, ids: [] }])
      recorder.forget(`s${n}`)
    }
    const kept = readMisses(file, clock.now())
    expect(kept.length).toBeLessThanOrEqual(1_000)
    expect(kept.at(-1)?.query).toMatch(/^1499 /)
    clock.pass(91 * 24 * 60 * 60_000)
    expect(readMisses(file, clock.now())).toEqual([])
    clearMisses(file)
    expect(readMisses(file, 0)).toEqual([])
  })
})
