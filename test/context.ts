import { type CallContext, localCaller, noOrigin, noServices } from '../src/core/caller.ts'
import { silentLog } from '../src/core/log.ts'
import { defaultProfile } from '../src/core/profile.ts'

/** A call context without services, with the overrides of a test. */
export function testContext(ctx: Partial<CallContext> = {}): CallContext {
  return {
    config: undefined,
    caller: localCaller,
    profile: defaultProfile,
    callId: 'test',
    setup: false,
    origin: noOrigin,
    services: noServices,
    loop: null,
    sentFiles: [],
    injectedTools: [],
    injectTool: () => undefined,
    signal: new AbortController().signal,
    log: silentLog,
    shared: {},
    fetch: () => Promise.reject(new Error('there is no network in tests')),
    progress() {},
    sendFile() {},
    warn() {},
    background() {},
    ask: () => Promise.reject(new Error('nobody is asked')),
    call: () => Promise.reject(new Error('nothing is called')),
    ...ctx,
  }
}
