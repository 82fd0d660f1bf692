import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';

// Whoever reaches the webhook may send it an old object of 3 MiB that no API server has stored. Measured in a process of its
// own, as in admission-pod-load.test.ts. A process whose event loop stands still for 3 s is ended.
const script = new URL('../support/load/worst-updates.ts', import.meta.url).pathname;

it('an update of 3 MiB is reviewed in less than 2 s of CPU time, whatever the old and the new object consist of', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', script], {
    timeout: 240_000,
  });
  const measured: Readonly<Record<string, { cpuMs: number; answerBytes: number }>> = JSON.parse(stdout);
  expect(Object.keys(measured).length).toBeGreaterThan(25);
  expect(Object.entries(measured).filter(([, { cpuMs }]) => cpuMs >= 2_000)).toEqual([]);
}, 300_000);
