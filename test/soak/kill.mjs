import { randomUUID } from 'node:crypto'
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { startHttp, TOKEN } from './pegboard.mjs'

/** Maximum number of stored items of each kind, below the limits of one principal. */
const STANDING = 40
/** Work of a killed process on Redis is found within about half a minute. */
const SETTLE_MS = 60_000

const answerOf = (result) => {
  const text = result.content.find((block) => block.type === 'text')?.text
  if (result.isError) throw new Error(text)
  return result.structuredContent ?? JSON.parse(text)
}

/**
 * Kills the server with SIGKILL at random moments while tasks, schedules and watchers run, restarts it, and compares
 * acknowledged work with the state.
 * @returns what was acknowledged, lost and done twice
 */
export async function killAgainAndAgain(place, { forMs, log }) {
  const journal = {
    once: new Map(),
    again: new Map(),
    due: new Map(),
    later: new Map(),
    watch: new Map(),
    cancelled: new Set(),
  }
  const figures = { rounds: 0, acknowledged: 0, refused: 0, lost: 0, doubled: 0, damaged: 0, interrupted: 0, rerun: 0 }
  const notes = []
  const told = []
  const fault = (figure, what) => {
    figures[figure]++
    notes.push(what)
    log(`${figure}: ${what}`)
  }
  const until = performance.now() + forMs
  let worst = 0
  while (performance.now() < until) {
    const server = await startHttp(place, { probe: false })
    await within(server, async (call) => {
      await compare(call)
      const over = new AbortController()
      const kill = sleep(100 + Math.random() * 1_200).then(() => {
        over.abort()
        return server.stop('SIGKILL')
      })
      await Promise.all([work(call, over.signal), work(call, over.signal), kill])
      worst = Math.max(worst, (await kill).left)
    })
    figures.rounds++
    checkFile()
  }
  const server = await startHttp(place, { probe: false })
  await within(server, async (call) => {
    await compare(call)
    await settle(call)
  })
  const { code, left } = await server.stop()
  if (code !== 0) fault('damaged', `the last server ended with ${code}: ${server.said().slice(-500)}`)
  figures.leftBehind = Math.max(worst, left)
  return { ...figures, notes }

  async function within(server, use) {
    const client = new Client({ name: 'soak', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    const headers = { authorization: `Bearer ${TOKEN}` }
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } }))
    await use(async (name, args = {}) => {
      const result = await client.callTool({ name, arguments: args })
      told.push(...result.content.map(({ text }) => text).filter((text) => text?.startsWith('[NOTICE]')))
      return answerOf(result)
    })
    await client.close().catch(() => undefined)
  }

  /** Starts, schedules and cancels work in turn, and records what was acknowledged. */
  async function work(call, signal) {
    const acknowledge = (kind, n, id) => {
      journal[kind].set(n, id)
      figures.acknowledged++
    }
    for (let turn = Math.floor(Math.random() * 5); !signal.aborted; turn++) {
      const n = randomUUID()
      try {
        if (turn % 5 === 0)
          acknowledge(
            'once',
            n,
            (await call('background_run', { name: 'work.once', params: { n, ms: Math.random() * 1_500 } })).task_id,
          )
        if (turn % 5 === 1)
          acknowledge(
            'again',
            n,
            (await call('background_run', { name: 'work.again', params: { n, ms: Math.random() * 1_500 } })).task_id,
          )
        if (turn % 5 === 2)
          acknowledge(
            'due',
            n,
            (await call('schedule_once', { when: 'in 1s', name: 'work.once', params: { n }, label: n })).job_id,
          )
        if (turn % 5 === 3)
          acknowledge(
            'later',
            n,
            (await call('schedule_once', { when: 'in 1d', name: 'work.once', params: { n }, label: n })).job_id,
          )
        if (turn % 5 === 4 && journal.watch.size < STANDING)
          acknowledge(
            'watch',
            n,
            (await call('watch_start', { name: 'work.wait', params: { ms: 1, n }, interval: 3_600, label: n }))
              .watcher_id,
          )
        if (journal.later.size > STANDING) {
          const [label, id] = journal.later.entries().next().value
          journal.later.delete(label)
          await call('schedule_cancel', { job_id: id })
          journal.cancelled.add(label)
        }
      } catch (error) {
        // Work of killed servers counts as running until they are known to be dead.
        if (/^E_OVERLOADED/.test(error.message)) {
          figures.refused++
          await sleep(200)
        } else if (
          !signal.aborted &&
          !/fetch failed|ECONN|socket|closed|terminated/.test(`${error.message} ${error.cause?.message}`)
        )
          fault('lost', `refused: ${error.message}`)
      }
    }
  }

  /** Valid entries must exist, and cancelled ones must not. */
  async function compare(call) {
    const { jobs } = await call('schedule_list')
    const labels = jobs.map(({ label }) => label)
    for (const [label] of journal.later) if (!labels.includes(label)) fault('lost', `a planned job ${label}`)
    for (const label of labels) if (journal.cancelled.has(label)) fault('doubled', `a cancelled job is back: ${label}`)
    if (new Set(labels).size < labels.length) fault('doubled', 'a job is there twice')
    const { watchers } = await call('watch_list')
    const ids = watchers.map(({ watcher_id }) => watcher_id)
    for (const [n, id] of journal.watch) if (!ids.includes(id)) fault('lost', `a watcher ${n} ${id}`)
    if (new Set(ids).size < ids.length) fault('doubled', 'a watcher is there twice')
  }

  /** Waits for the end of all started work, and compares it with the runs. */
  async function settle(call) {
    const open = new Map([...journal.once, ...journal.again])
    const ends = new Map()
    const runs = new Map()
    const readRuns = () => {
      runs.clear()
      for (const n of readFileSync(place.runs, 'utf8').split('\n').filter(Boolean)) runs.set(n, (runs.get(n) ?? 0) + 1)
    }
    /** Due jobs without a known outcome. */
    const unknown = () =>
      [...journal.due.keys()].filter((label) => !runs.has(label) && !told.some((line) => line.includes(label)))
    let patience = performance.now() + SETTLE_MS
    for (let left; performance.now() < patience; ) {
      for (const [n, id] of open) {
        const task = await call('background_result', { task_id: id }).catch((error) => ({ status: error.message }))
        if (task.status === 'running' || task.status === 'queued') continue
        ends.set(n, task)
        open.delete(n)
      }
      const { jobs } = await call('schedule_list')
      readRuns()
      const planned = jobs.filter(({ label }) => journal.due.has(label)).length
      const now = open.size + planned + unknown().length
      if (now === 0) break
      // A busy machine is slow but still makes progress.
      if (now !== left) patience = performance.now() + SETTLE_MS
      left = now
      await sleep(500)
    }
    // Duplicate runs have happened by now.
    await sleep(1_000)
    readRuns()
    for (const [n] of open) fault('lost', `a task that never ends ${n}`)
    for (const [n, { status, result }] of ends) {
      const times = runs.get(n) ?? 0
      if (status === 'interrupted') figures.interrupted++
      else if (status !== 'completed') fault('lost', `a task ${n}: ${status}`)
      else if (times === 0 || result?.n !== n) fault('lost', `a task ${n} that is told as done and was not`)
      if (journal.once.has(n) && times > 1) fault('doubled', `a task ran ${times} times that is not idempotent: ${n}`)
      if (journal.again.has(n) && times > 1) figures.rerun++
      if (times > 5) fault('doubled', `a task ran ${times} times: ${n}`)
    }
    for (const [label] of journal.due) {
      const times = runs.get(label) ?? 0
      if (times > 1) fault('doubled', `a job ran ${times} times: ${label}`)
      if (unknown().includes(label)) fault('lost', `a job that was due: ${label}`)
      if (times === 0) figures.interrupted++
    }
    for (const label of [...journal.later.keys(), ...journal.cancelled])
      if (runs.has(label)) fault('doubled', `a job ran that was not due, or was cancelled: ${label}`)
  }

  /** Reads a copy, so that the next server finds the state unchanged. */
  function checkFile() {
    const file = join(place.state, 'state.db')
    if (!existsSync(file)) return
    const copy = join(mkdtempSync(join(place.folder, 'copy-')), 'state.db')
    for (const ending of ['', '-wal']) if (existsSync(file + ending)) copyFileSync(file + ending, copy + ending)
    const Database = process.getBuiltinModule?.('node:sqlite')?.DatabaseSync ?? createRequire(import.meta.url)('libsql')
    const database = new Database(copy)
    const [row] = database.prepare('PRAGMA integrity_check').all()
    database.close()
    if (Object.values(row)[0] !== 'ok') fault('damaged', JSON.stringify(row))
    if (readdirSync(place.state).some((name) => name.includes('corrupt'))) fault('damaged', 'put aside')
  }
}
