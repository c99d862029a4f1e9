/** Text as a program wrote it. It scrolls, so it must be reachable by keyboard. */
export const Log = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
  <pre class="log" tabIndex={0}>
    {text}
  </pre>
)
