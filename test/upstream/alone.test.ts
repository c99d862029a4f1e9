import { describe, expect, it } from 'vitest'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { type Alone, createAlone, WAIT_MS } from '../../src/upstream/alone.ts'
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
  const alone = createAlone({ asks }, clock)
  const entered: string[] = []
  const enter = async (name: string, relay: Relay): Promise<void> => {
    await alone.enter(relay)
    entered.push(name)
  }
  return { clock, alone, entered, enter }
}
const turn = (): Promise<void> => new Promise(setImmediate)

describe('a server that never asked', () => {
  it('has nobody wait', () => {
    const { alone } = rig(false)
    expect(alone.enter(person())).toBeUndefined()
    expect(alone.enter(person())).toBeUndefined()
    expect(alone.enter(program())).toBeUndefined()
  })
})

describe('a server that asks', () => {
  it('has calls of one client, or of clients that cannot be asked, at the same time', () => {
    const { alone } = rig()
    const ann = person()
    expect(alone.enter(ann)).toBeUndefined()
    expect(alone.enter({ ...ann })).toBeUndefined()
    const other: Alone = rig().alone
    expect(other.enter(program())).toBeUndefined()
    expect(other.enter(program())).toBeUndefined()
  })

  it('has one client that can be asked after the other, in the order they came', async () => {
    const { alone, entered, enter } = rig()
    const [ann, bob, cy] = [person(), person(), person()]
    for (const [name, relay] of Object.entries({ ann, bob, cy })) void enter(name, relay)
    await turn()
    expect(entered).toEqual(['ann'])
    expect(alone.only()).toBe(ann)
    alone.leave(ann)
    await turn()
    expect(entered).toEqual(['ann', 'bob'])
    expect(alone.only()).toBe(bob)
    alone.leave(bob)
    await turn()
    expect(entered).toEqual(['ann', 'bob', 'cy'])
  })

  it('has nobody wait longer than the limit, after which no question can be told to be of one of them', async () => {
    const { clock, alone, entered, enter } = rig()
    void enter('ann', person())
    void enter('program', program())
    void enter('bob', person())
    await turn()
    clock.pass(WAIT_MS.other)
    await turn()
    expect(entered).toEqual(['ann', 'program'])
    expect(alone.only()).toBeUndefined()
    clock.pass(WAIT_MS.interactive)
    await turn()
    expect(entered).toEqual(['ann', 'program', 'bob'])
  })

  it('goes on with calls of clients that cannot be asked while a person thinks, and waits for them before it goes on with the call', async () => {
    const { alone, entered, enter } = rig()
    const [ann, one, two] = [person(), program(), program()]
    void enter('ann', ann)
    const back = alone.away(ann)
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
    expect(alone.only()).toBe(ann)
    expect(entered).toEqual(['ann', 'one'])
    alone.leave(ann)
    await turn()
    expect(entered).toEqual(['ann', 'one', 'two'])
  })

  it('forgets who no longer wants to wait', async () => {
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
