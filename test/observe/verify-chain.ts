import { type Break, createVerifier } from '../../src/observe/hash-chain.ts'

/** What is wrong with the lines of an audit log, oldest first. */
export function verifyChain(lines: Iterable<string>, secret: Buffer): readonly Break[] {
  const verify = createVerifier(secret)
  return [...lines].flatMap((line, at) => {
    const what = verify(line)
    return what === undefined ? [] : [{ line: at + 1, what }]
  })
}
