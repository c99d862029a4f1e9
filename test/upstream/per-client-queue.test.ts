import { describe, expect, it } from 'vitest'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createPerClientQueue, WAIT_MS } from '../../src/upstream/per-client-queue.ts'
import { createManualClock } from '../clock.ts'

const person = (): Relay => ({
  ...noRelay,
  connection: {},
  clientCapabilities: { elicitation: {} },
  request: () => Promise.resolve({}),
})
const program = (): Relay => ({ ...noRelay, connection: {} })

function rig(asks = true) {
  const clock = createManualClock(0)
  const alone = createPerClientQueue({ asks }, clock)
  const entered: string[] = []
  const enter = async (name: string, relay: Relay): Promise<void> => {
    await alone.enter(relay)
    entered.push(name)
  }
  return { clock, alone, entered, enter }
}
const turn = (): Promise<void> => new Promise(setImmediate)

describe('a server that never sent a request', () => {
  it('delays no call', () => {
    const { alone } = rig(false)
    expect(alone.enter(person())).toBeUndefined()
    expect(alone.enter(person())).toBeUndefined()
    expect(alone.enter(program())).toBeUndefined()
  })
})

describe('a server that sends requests', () => {
  it('runs calls of one client, or of clients that cannot be asked, in parallel', () => {
    const { alone } = rig()
    const ann = person()
    expect(alone.enter(ann)).toBeUndefined()
    expect(alone.enter({ ...ann })).toBeUndefined()
    const other = rig().alone
    expect(other.enter(program())).toBeUndefined()
    expect(other.enter(program())).toBeUndefined()
  })

  it('runs calls of clients that can be asked one after the other, in order', async () => {
    const { alone, entered, enter } = rig()
    const [ann, bob, cy] = [person(), person(), person()]
    for (const [name, relay] of Object.entries({ ann, bob, cy })) void enter(name, relay)
    await turn()
    expect(entered).toEqual(['ann'])
    expect(alone.findCaller()).toBe(ann)
    alone.leave(ann)
    await turn()
    expect(entered).toEqual(['ann', 'bob'])
    expect(alone.findCaller()).toBe(bob)
    alone.leave(bob)
    await turn()
    expect(entered).toEqual(['ann', 'bob', 'cy'])
  })

  it('delays a call for a limited time, after which requests cannot be attributed', async () => {
    const { clock, alone, entered, enter } = rig()
    void enter('ann', person())
    void enter('program', program())
    void enter('bob', person())
    await turn()
    clock.pass(WAIT_MS.other)
    await turn()
    expect(entered).toEqual(['ann', 'program'])
    expect(alone.findCaller()).toBeUndefined()
    clock.pass(WAIT_MS.interactive)
    await turn()
    expect(entered).toEqual(['ann', 'program', 'bob'])
  })

  it('continues calls of clients that cannot be asked while a person answers, and waits for them before the call continues', async () => {
    const { alone, entered, enter } = rig()
    const [ann, one, two] = [person(), program(), program()]
    void enter('ann', ann)
    const back = alone.askPerson(ann)
    void enter('one', one)
    await turn()
    expect(entered).toEqual(['ann', 'one'])
    let goesOn = false
    void Promise.resolve(back()).then(() => {
      goesOn = true
    })
    void enter('two', two)
    await turn()
    expect(goesOn).toBe(false)
    alone.leave(one)
    await turn()
    expect(goesOn).toBe(true)
    expect(alone.findCaller()).toBe(ann)
    expect(entered).toEqual(['ann', 'one'])
    alone.leave(ann)
    await turn()
    expect(entered).toEqual(['ann', 'one', 'two'])
  })

  it('treats calls without a session as one client per principal', async () => {
    const { entered, enter } = rig()
    const of = (principal: string): Relay => ({ ...person(), principal })
    const [first, second] = [of('ann'), of('ann')]
    for (const [name, relay] of Object.entries({ first, second, bob: of('bob') })) void enter(name, relay)
    await turn()
    expect(entered).toEqual(['first', 'second'])
    // Sessions of one principal are different clients.
    const sessions = rig().alone
    expect(sessions.enter({ ...of('ann'), session: '1' })).toBeUndefined()
    expect(sessions.enter({ ...of('ann'), session: '2' })).toBeInstanceOf(Promise)
  })

  it('attributes a request to the latest call that can be asked and has no open question', () => {
    const { alone } = rig()
    const of = (relay: Relay): Relay => ({ ...relay, principal: 'ann' })
    const [one, two, three, silent] = [of(person()), of(person()), of(person()), of(program())]
    for (const relay of [one, two, three, silent]) void alone.enter(relay)
    expect(alone.findCaller()).toBe(three)
    const back = alone.askPerson(three)
    expect(alone.findCaller()).toBe(two)
    alone.leave(one)
    expect(alone.findCaller()).toBe(two)
    void back()
    expect(alone.findCaller()).toBe(three)
    alone.askPerson(two)
    alone.askPerson(three)
    expect(alone.findCaller()).toBe(three)
    alone.leave(three)
    alone.leave(two)
    expect(alone.findCaller()).toBe(silent)
  })

  it('removes cancelled calls from the queue', async () => {
    const { alone, entered, enter } = rig()
    const ann = person()
    void enter('ann', ann)
    const abort = new AbortController()
    const left = alone.enter(person(), abort.signal)
    void enter('cy', person())
    abort.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    alone.leave(ann)
    await turn()
    expect(entered).toEqual(['ann', 'cy'])
  })
})
