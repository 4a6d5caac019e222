#!/bin/sh
sed -i 's/size: small/size: large/' "$1"
