import { writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { answerOf } from '../app.ts'
import { callsOf, place, talkTo } from '../process.ts'
import { scripted, until } from '../upstream/host.ts'

const settings = (more: object = {}) => ({
  exposure: { mode: 'direct' },
  execution: { watchers: true, scheduler: true, maxResultTokens: 0 },
  mcpServers: { s: { ...scripted(), ...more } },
})

it('watchers and due jobs wait while the entry of their server is invalid', async () => {
  const where = place(settings())
  const talk = await talkTo(where)
  const call = callsOf(talk)
  const notices: string[] = []
  const callAndKeepNotices = async (name: string, args: object = {}) => {
    const result = await call(name, args)
    for (const { text } of result.content) if (text?.startsWith('[NOTICE]')) notices.push(text)
    return answerOf(result)
  }
  const waits = (kind: string) => talk.stderr().includes(`a ${kind} waits for a valid entry of its server`)
  await call('s__echo', { text: 'started' })
  await call('watch_start', {
    name: 's__echo',
    params: { text: 'watched' },
    interval: 5,
    label: 'w',
    notify_when: 'always',
  })
  await call('schedule_once', { name: 's__echo', params: { text: 'on time' }, when: 'in 8s', label: 'j' })

  writeFileSync(where.config, JSON.stringify(settings({ deny: 'delete_*' })))
  await until(() => waits('watcher') && waits('job'))
  expect((await callAndKeepNotices('s__echo', { text: 'x' })).error).toMatchObject({
    code: 'E_UPSTREAM_UNAVAILABLE',
    message: "'s__echo' is not available: the configuration entry of the server s is invalid.",
    hint: 'Use another tool. The operator sees what to correct with: pegboard check',
    class: 'server_setup',
    retryable: false,
  })
  expect(notices).toEqual([])
  const { watchers } = await callAndKeepNotices('watch_list')
  expect(watchers).toMatchObject([{ label: 'w', status: 'running', checks: 0 }])

  writeFileSync(where.config, JSON.stringify(settings()))
  const isTold = (part: string) => notices.some((line) => line.includes(part))
  for (const end = Date.now() + 50_000; !(isTold('(mcp_s.echo)') && isTold('[WATCHER UPDATE]')) && Date.now() < end; ) {
    await callAndKeepNotices('watch_list')
    await new Promise((done) => setTimeout(done, 500))
  }
  expect(notices.find((line) => line.includes('Scheduled job j'))).toContain('gave "on time"')
  expect(notices.find((line) => line.includes('[WATCHER UPDATE] w'))).toContain('check 1: "watched"')
}, 120_000)
