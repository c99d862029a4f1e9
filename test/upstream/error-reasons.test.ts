import { describe, expect, it } from 'vitest'
import { findErrorLine } from '../../src/upstream/error-reasons.ts'

describe('the last output of a server', () => {
  it.each([
    [
      'npm knows no such package',
      `npm warn config something
npm error code E404
npm error 404 Not Found - GET https://registry.example/nosuch - Not found
npm error 404
npm error 404  The requested resource 'nosuch@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error A complete log of this run can be found in: /home/ada/.npm/_logs/x.log`,
      "npm error 404  The requested resource 'nosuch@*' could not be found or you do not have permission to access it.",
    ],
    [
      'npm has another trouble',
      'npm error code EACCES\nnpm error syscall open\nnpm error errno -13',
      'npm error code EACCES',
    ],
    [
      'Node finds no file',
      `node:internal/modules/cjs/loader:1
  throw err;
  ^

Error: Cannot find module '/srv/index.js'
    at Function.<anonymous> (node:internal/modules/cjs/loader:1:1) {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.1.0`,
      "Error: Cannot find module '/srv/index.js'",
    ],
    [
      'a port is in use',
      `node:events:497
      throw er; // Unhandled 'error' event
      ^

Error: listen EADDRINUSE: address already in use 127.0.0.1:8080
    at Server.setupListenHandle [as _listen2] (node:net:1908:16)
Emitted 'error' event on Server instance at:
    at emitErrorNT (node:net:1887:8) {
  code: 'EADDRINUSE'
}

Node.js v20.20.2`,
      'Error: listen EADDRINUSE: address already in use 127.0.0.1:8080',
    ],
    [
      'Node has no memory left',
      `FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----

 1: 0xb9bea4 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]
 7: 0x10ea385 v8::internal::HeapAllocator::AllocateRawWithRetryOrFailSlowPath(int) [node]`,
      'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
    ],
    ['Node knows no such option', 'node: bad option: --no-such-flag\n', 'node: bad option: --no-such-flag'],
  ])('%s', (_what, stderr, words) => {
    expect(findErrorLine(stderr, false)).toBe(words)
  })
})
