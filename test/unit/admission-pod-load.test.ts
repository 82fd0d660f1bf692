import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';

// All pods of a cluster wait for one event loop, and a dry run is enough to send it a pod of 3 MiB. Measured in a process
// of its own: the sandbox of the test runner makes the same code three times slower.
const script = new URL('../support/load/worst-pods.ts', import.meta.url).pathname;

it('a pod of 3 MiB is reviewed in less than 100 ms of CPU time, whatever it consists of', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', script]);
  const measured: Readonly<Record<string, number>> = JSON.parse(stdout);
  expect(Object.keys(measured).length).toBeGreaterThan(25);
  expect(Object.entries(measured).filter(([, cpuMs]) => cpuMs >= 100)).toEqual([]);
});
