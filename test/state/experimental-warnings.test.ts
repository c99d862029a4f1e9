import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { callsOf, place, talkTo } from '../process.ts'

it('uses the SQLite and the type stripping of Node.js without their experimental warnings', async () => {
  const here = place(
    { exposure: { mode: 'direct' }, execution: { scheduler: true, watchers: true } },
    {
      'tea.ts': `import { defineModule, z } from 'pegboard'
export default defineModule({
  name: 'tea',
  description: 'Tea for the test of warnings.',
  tools: {
    make: {
      description: 'Make tea. Not coffee.',
      input: z.object({ cups: z.number() }),
      effect: 'read',
      run: ({ cups }: { cups: number }) => ({ cups }),
    },
  },
})
`,
    },
  )
  const talk = await talkTo(here)
  const call = callsOf(talk)
  expect((await call('tea__make', { cups: 2 })).structuredContent).toEqual({ cups: 2 })
  await call('schedule_once', { when: 'in 1d', name: 'tea.make', params: { cups: 2 } })
  expect(existsSync(join(here.dir, 'state/state.db'))).toBe(true)
  expect(talk.stderr()).not.toContain('Warning')
})
